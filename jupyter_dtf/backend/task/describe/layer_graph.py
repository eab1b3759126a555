"""A Keras model's graph of layers, determined by calling the model symbolically for one example.

Every call to a layer is recorded with its input and output tensors, so that functional, sequential, nested and
subclassed models are all handled in the same way. Operations between layers, such as an addition, are skipped when
tracing a layer's inputs back to the layers that they come from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import keras
import tensorflow as tf

from ....errors import InvalidInput
from ....schema.graph import Edge, Layer, LayerGraph
from . import flops, layer_calls, stateful
from .graph_inputs import described_inputs

_MUCH = 0.01
"""A note is added if more than this share of a model's computation is outside of layers."""


@dataclass
class _Call:
    """A recorded call to a layer."""

    layer: Any
    path: str
    inputs: list[tf.Tensor]
    outputs: list[tf.Tensor] = field(default_factory=list)
    operations: list[tf.Operation] = field(default_factory=list)
    """The operations created in this call, without those created in nested calls."""
    opened: bool = False
    """Whether other layers with nodes of their own were called within this call."""


def describe(model: Any, input_shapes: Any = None) -> LayerGraph:
    """Return the layers of a Keras model and their costs; see ``schema.graph``.

    Args:
        model: The model.
        input_shapes: For a model that is not built, or has unknown dimensions: the shapes of its inputs, with the batch
            size or ``None`` first, in the structure that the model takes.

    Raises:
        InvalidInput: If ``model`` is not a Keras model, or input shapes are missing.
    """
    given, calls, notes = _traced(model, input_shapes)
    leaves = [call for call in calls if not call.opened]
    layers = _layers(model, leaves)
    edges, targets = _edges(leaves, calls[-1].inputs, layers, stateful.examples(model))
    outside = sum(flops.of_operation(op) for call in calls if call.opened for op in call.operations)
    outside //= stateful.examples(model)
    total = sum(layer.flops for layer in layers.values()) + outside
    if outside > _MUCH * total:
        notes.append(f"{outside / total:.0%} of the computation is outside of layers and not included in their figures")
    return LayerGraph(
        model=model.name,
        layers=list(layers.values()),
        edges=edges,
        inputs=described_inputs(model, given, calls[-1].inputs, targets),
        notes=notes,
    )


def layers_by_id(model: Any, input_shapes: Any = None) -> dict[str, Any]:
    """Return a Keras model's layers, keyed by the ids that ``describe`` assigns, in the order of their first calls.

    A layer that is called in several containers has several ids. Raises InvalidInput in the same cases as ``describe``.
    """
    _, calls, _ = _traced(model, input_shapes)
    return {call.path or call.layer.name: call.layer for call in calls if not call.opened}


def _traced(model: Any, input_shapes: Any) -> tuple[Any, list[_Call], list[str]]:
    """Return an example (see ``example``), the layer calls that are made when the model is called with it, and notes
    for the user. The calls are in the order in which they end, so the model's own call is last.
    """
    if not isinstance(model, keras.Model):
        raise InvalidInput(f"`model` must be a keras.Model, got {model!r:.200}", field="model")
    inputs, notes = example(model, input_shapes)
    if not all(layer.built for layer in model._flatten_layers()):
        _call(model, inputs)  # build the layers first, because a call that builds them calls them repeatedly
    with _noted(model) as calls:
        _call(model, inputs)
    return inputs, calls, notes


def _call(model: Any, example: Any) -> None:
    tf.function(model, autograph=False).get_concrete_function(example)


def example(model: Any, input_shapes: Any) -> tuple[Any, list[str]]:
    """Return a pair: the TensorSpecs of one example, in the structure that the model accepts, and notes for the user
    about assumptions, such as unknown dimensions taken to be 1.
    """
    if input_shapes is not None:
        given = _specs(input_shapes)
    elif getattr(model, "inputs", None):
        struct = getattr(model, "_inputs_struct", None)
        given = keras.tree.map_structure(
            lambda t: tf.TensorSpec(t.shape, t.dtype), struct if struct is not None else model.inputs[0]
        )
    elif model.built and getattr(model, "_build_shapes_dict", None):
        given = _specs(next(iter(model._build_shapes_dict.values())))
    else:
        raise InvalidInput(
            "`input_shapes` must be given for a model that is not built, such as (None, 28, 28), got None",
            field="input_shapes",
        )
    unknown: set[int] = set()

    def one(spec: tf.TensorSpec) -> tf.TensorSpec:
        unknown.update(axis for axis, size in enumerate(spec.shape[1:], 1) if size is None)
        return tf.TensorSpec(
            [stateful.examples(model), *(1 if size is None else size for size in spec.shape[1:])], spec.dtype
        )

    specs = tf.nest.map_structure(one, given)
    if unknown:
        return specs, [f"Unknown dimensions (indices {sorted(unknown)}) are assumed to be 1. Pass input_shapes"]
    return specs, []


def _specs(shapes: Any) -> Any:
    if isinstance(shapes, dict):
        return {name: _specs(shape) for name, shape in shapes.items()}
    if shapes and isinstance(shapes[0], (list, tuple)):
        return [_specs(shape) for shape in shapes]
    return tf.TensorSpec(shapes, keras.config.floatx())


@contextmanager
def _noted(model: Any) -> Iterator[list[_Call]]:
    """Record the calls to the model's layers within the block, in the order in which they end."""
    calls: list[_Call] = []
    stack: list[_Call] = []
    seen = 0

    def account() -> None:
        """Attribute operations created since the last call to this function to the innermost layer call."""
        nonlocal seen
        operations = tf.compat.v1.get_default_graph().get_operations()
        if stack:
            stack[-1].operations += operations[seen:]
        seen = len(operations)

    def call(path: str, layer: Any, args: Any, kwargs: Any, proceed: Callable[[], Any]) -> Any:
        account()
        if stack:
            stack[-1].opened = True
        inputs = [leaf for leaf in tf.nest.flatten((args, kwargs)) if tf.is_tensor(leaf)]
        stack.append(_Call(layer, path, inputs))
        try:
            outputs = proceed()
        finally:
            account()
            ended = stack.pop()
        ended.outputs = [leaf for leaf in tf.nest.flatten(outputs) if tf.is_tensor(leaf)]
        calls.append(ended)
        return outputs

    with layer_calls.watched(model, call):
        yield calls


def _layers(model: Any, calls: Sequence[_Call]) -> dict[str, Layer]:
    slots = _slots_per_parameter(model)
    examples = stateful.examples(model)
    found: dict[str, Layer] = {}
    for call in calls:
        path = call.path or call.layer.name
        cost = sum(map(flops.of_operation, call.operations)) // examples
        made = sum(_bytes(t) for op in call.operations if flops.of_operation(op) for t in op.outputs)
        activations = made // examples
        if path in found:
            found[path].calls += 1
            found[path].flops += cost
            found[path].activation_bytes += activations
            continue
        trainable = sum(math.prod(w.shape) * tf.as_dtype(w.dtype).size for w in call.layer.trainable_weights)
        found[path] = Layer(
            id=path,
            kind=type(call.layer).__name__,
            input_shapes=[list(t.shape) for t in call.inputs],
            output_shapes=[list(t.shape) for t in call.outputs],
            parameters=call.layer.count_params(),
            parameter_bytes=sum(math.prod(w.shape) * tf.as_dtype(w.dtype).size for w in call.layer.weights),
            gradient_bytes=trainable,
            slot_bytes=round(trainable * slots),
            activation_bytes=activations,
            flops=cost,
        )
    return found


def _slots_per_parameter(model: Any) -> float:
    """Return the number of values that the optimizer keeps per trainable parameter, found by building it for one
    variable.
    """
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None:
        return 0.0
    trial = type(optimizer).from_config(optimizer.get_config())
    shape = (64, 64)
    trial.build([keras.Variable(tf.zeros(shape))])
    kept: int = sum(math.prod(v.shape) for v in trial.variables if len(v.shape))
    return kept / math.prod(shape)


def _edges(
    calls: Sequence[_Call], inputs: Sequence[tf.Tensor], layers: dict[str, Layer], examples: int
) -> tuple[list[Edge], list[list[str]]]:
    """Return the edges between layers, and for each of the model's inputs, a list of the layers that use it."""
    origins: dict[int, str | int] = {id(tensor): number for number, tensor in enumerate(inputs)}
    sizes: dict[tuple[str, str], int] = {}
    taken: list[set[str]] = [set() for _ in inputs]
    for call in calls:
        target = call.path or call.layer.name
        for tensor in _reached(call.inputs, origins):
            source = origins[id(tensor)]
            if isinstance(source, int):
                taken[source].add(target)
            elif source != target:
                sizes[source, target] = sizes.get((source, target), 0) + _bytes(tensor) // examples
        # In the order in which calls end, because a layer that returns its input unchanged, such as Dropout here,
        # returns another layer's tensor.
        origins.update((id(tensor), target) for tensor in call.outputs)
    order = {name: index for index, name in enumerate(layers)}
    edges = [
        Edge(source=source, target=target, bytes=size)
        for (source, target), size in sorted(sizes.items(), key=lambda item: (order[item[0][0]], order[item[0][1]]))
    ]
    return edges, [sorted(targets, key=order.__getitem__) for targets in taken]


def _reached(tensors: Sequence[tf.Tensor], origins: Container[int]) -> list[tf.Tensor]:
    """Return the layer outputs and model inputs that these tensors depend on, without duplicates."""
    found: dict[int, tf.Tensor] = {}
    waiting = list(tensors)
    seen: set[int] = set()
    while waiting:
        tensor = waiting.pop()
        if id(tensor) in seen:
            continue
        seen.add(id(tensor))
        if id(tensor) in origins:
            found[id(tensor)] = tensor
        else:
            waiting += tensor.op.inputs
    return list(found.values())


def _bytes(tensor: tf.Tensor) -> int:
    known = math.prod(size or 1 for size in tensor.shape) if tensor.shape.rank is not None else 0
    return int(known * tensor.dtype.size)
