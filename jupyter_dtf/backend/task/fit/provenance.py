"""What of a step's tensors comes from the batch: read from the step's graph, from a tensor back to the batch's.

Of every tensor on the way it is worked out whether its values depend on the examples, or on how many there are, and
which of its extents do. Only what a lookup's indices are usually made of has a rule of its own; of any other operation
the outcome depends on the batch if one of its inputs does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

Flags = tuple[bool, ...]


@dataclass(frozen=True)
class Fact:
    """Whether something depends on the batch: a tensor's values, its extents, and the single values of a vector."""

    values: bool
    extents: Flags | None = None
    """None: nothing is known."""
    elements: Flags | None = None
    """Of a vector; None: as ``values`` says."""

    @property
    def depends(self) -> bool:
        return self.values or self.extents is None or any(self.extents)

    def element(self, index: int) -> bool:
        return self.values if self.elements is None else self.elements[index]


class Provenance:
    """``data``: the batch, of which the first extent is the number of examples."""

    def __init__(self, data: Any) -> None:
        self._facts: dict[int, Fact] = {}
        self._kept: list[Any] = []  # so that no id is given out again
        for leaf in tf.nest.flatten(data):
            if isinstance(leaf, tf.Tensor):
                extents = tuple(i == 0 for i in range(leaf.shape.rank)) if leaf.shape.rank is not None else None
                self._set(leaf, Fact(True, extents))
            else:
                for part in tf.nest.flatten(leaf, expand_composites=True):
                    if part is not None:
                        self._set(part, Fact(True))

    def parts(self, indices: tf.Tensor) -> list[tuple[tf.Tensor, bool]]:
        """Tensors whose elements, one after the other, are as many as the indices; and whether they are independent
        of the batch, each the indices of one lookup.
        """
        return [(part, not self.of(part).depends) for part in _parts(indices)]

    def of(self, tensor: Any) -> Fact:
        """What is known of a tensor."""
        waiting = [tensor]
        while waiting:
            last = waiting[-1]
            if id(last) in self._facts:
                waiting.pop()
                continue
            needed = self._origins(last)
            missing = [t for t in needed if id(t) not in self._facts]
            if missing and len(waiting) < 1_000_000:
                waiting.extend(missing)
                continue
            waiting.pop()
            self._conclude(last)
        return self._facts[id(tensor)]

    def _set(self, tensor: Any, fact: Fact) -> None:
        self._kept.append(tensor)
        self._facts[id(tensor)] = fact

    def _origins(self, tensor: Any) -> Sequence[Any]:
        """The tensors that one is computed from, or the one outside of the function that it stands for."""
        op = _operation(tensor)
        if op is None:
            return ()
        if op.type == "Placeholder":
            outer = self._outer(tensor)
            return () if outer is None else (outer,)
        return tuple(op.inputs)

    def _outer(self, placeholder: Any) -> Any:
        graph = placeholder.graph
        captures = {id(inner): outer for outer, inner in getattr(graph, "captures", ())}
        return captures.get(id(placeholder))

    def _conclude(self, tensor: Any) -> None:
        op = _operation(tensor)
        if op is None:  # an eager tensor: a constant or a variable
            self._set(tensor, Fact(False, _none_of(tensor)))
            return
        if op.type == "Placeholder":
            outer = self._outer(tensor)
            self._set(tensor, Fact(True) if outer is None else self._facts[id(outer)])
            return
        outcomes = self._outcomes(op)
        for output, fact in zip(op.outputs, outcomes, strict=True):
            if id(output) not in self._facts:
                self._set(output, _known_extents(output, fact))

    def _outcomes(self, op: Any) -> list[Fact]:
        inputs = [self._facts[id(t)] for t in op.inputs]
        if op.type in ("PartitionedCall", "StatefulPartitionedCall"):
            inside = self._inside(op, inputs)
            if inside is not None:
                return inside
        rule = _RULES.get(op.type)
        if rule is not None:
            found = rule(op, inputs)
            if found is not None:
                return found if isinstance(found, list) else [found] * len(op.outputs)
        return [_any_operation(op, inputs, output) for output in op.outputs]

    def _inside(self, op: Any, inputs: Sequence[Fact]) -> list[Fact] | None:
        """The outcomes of a call, by the graph of the function that is called."""
        try:
            graph = op.graph._get_function(op.get_attr("f").name).graph
            arguments, results = graph.inputs, graph.outputs
        except (AttributeError, KeyError, ValueError):
            return None
        if len(arguments) != len(inputs) or len(results) != len(op.outputs):
            return None
        inner = Provenance(None)
        for argument, fact in zip(arguments, inputs, strict=True):
            inner._set(argument, fact)
        return [inner.of(result) for result in results]


def _operation(tensor: Any) -> Any:
    return None if isinstance(tensor, tf.__internal__.EagerTensor) else tensor.op


def _parts(tensor: tf.Tensor) -> list[tf.Tensor]:
    """What a tensor, flattened, is put together from along its first extent."""
    op = _operation(tensor)
    while op is not None:
        if op.type == "ConcatV2" and _constant(op.inputs[-1]) == 0:
            return [part for each in op.inputs[:-1] for part in _parts(each)]
        if op.type in ("Cast", "Identity", "StopGradient"):
            tensor = op.inputs[0]
        elif op.type == "Reshape" and tensor.shape.rank == 1:
            tensor = op.inputs[0]
        elif op.type == "SelectV2" and op.inputs[2].shape.rank == tensor.shape.rank:  # negative indices made positive
            tensor = op.inputs[2]
        else:
            break
        op = _operation(tensor)
    return [tensor]


def _constant(tensor: Any) -> Any:
    return tf.get_static_value(tensor)


def _none_of(tensor: Any) -> Flags | None:
    return None if tensor.shape.rank is None else (False,) * tensor.shape.rank


def _known_extents(tensor: Any, fact: Fact) -> Fact:
    """The fact, with what a static shape tells: an extent that is known is not that of the batch."""
    shape = tensor.shape
    if shape.rank is None:
        return Fact(fact.values, None)
    extents = fact.extents
    if extents is None or len(extents) != shape.rank:
        extents = (True,) * shape.rank
    extents = tuple(flag and size is None for flag, size in zip(extents, shape.as_list(), strict=True))
    elements = fact.elements if shape.rank == 1 and fact.elements and shape[0] == len(fact.elements) else None
    return Fact(fact.values, extents, elements)


# -- rules: (operation, what is known of its inputs) -> of its outputs, or None where they cannot tell ----------------

Found = Fact | list[Fact] | None


def _any_operation(op: Any, inputs: Sequence[Fact], output: Any) -> Fact:
    values = any(fact.values for fact in inputs)
    rank = output.shape.rank
    dependent = [fact for fact in inputs if fact.extents is None or any(fact.extents)]
    if not dependent:
        return Fact(values, _none_of(output))
    if rank is None or any(fact.extents is None or len(fact.extents) != rank for fact in dependent):
        return Fact(values)
    return Fact(values, _either(fact.extents for fact in dependent))


def _either(flags: Any) -> Flags:
    return tuple(any(each) for each in zip(*flags, strict=True))


def _independent(op: Any, inputs: Sequence[Fact]) -> Found:
    return [Fact(False, _none_of(output)) for output in op.outputs]


def _drawn(op: Any, inputs: Sequence[Fact]) -> Found:
    return Fact(True)


def _same(op: Any, inputs: Sequence[Fact]) -> Found:
    return inputs[0]


def _by_element(op: Any, inputs: Sequence[Fact]) -> Found:
    """Operations that broadcast."""
    values = any(fact.values for fact in inputs)
    rank = op.outputs[0].shape.rank
    if rank is None or any(fact.extents is None for fact in inputs):
        return Fact(values)
    extents = _either((*((False,) * (rank - len(f.extents or ()))), *(f.extents or ())) for f in inputs)
    elements = None
    if rank == 1 and op.outputs[0].shape[0] is not None:
        count = op.outputs[0].shape[0]
        sizes = {len(f.elements) for f in inputs if f.elements is not None}
        if sizes <= {count}:
            elements = tuple(any(f.element(i) for f in inputs) for i in range(count))
    return Fact(values, extents, elements)


def _shape(op: Any, inputs: Sequence[Fact]) -> Found:
    return [Fact(f.extents is None or any(f.extents), (False,), f.extents) for f in inputs]


def _size(op: Any, inputs: Sequence[Fact]) -> Found:
    return Fact(inputs[0].extents is None or any(inputs[0].extents), ())


def _like(op: Any, inputs: Sequence[Fact]) -> Found:
    return Fact(False, inputs[0].extents)


def _range(op: Any, inputs: Sequence[Fact]) -> Found:
    values = any(fact.values for fact in inputs)
    return Fact(values, (values,))


def _vector(fact: Fact, count: int) -> Flags:
    return tuple(fact.element(i) for i in range(count))


def _fill(op: Any, inputs: Sequence[Fact]) -> Found:
    rank = op.outputs[0].shape.rank
    return Fact(inputs[1].values, None if rank is None else _vector(inputs[0], rank))


def _broadcast_to(op: Any, inputs: Sequence[Fact]) -> Found:
    rank = op.outputs[0].shape.rank
    extents = inputs[0].extents
    if rank is None or extents is None:
        return None
    aligned = (*((False,) * (rank - len(extents))), *extents)
    return Fact(inputs[0].values, _either([_vector(inputs[1], rank), aligned]))


def _tile(op: Any, inputs: Sequence[Fact]) -> Found:
    extents = inputs[0].extents
    if extents is None:
        return None
    return Fact(inputs[0].values, _either([extents, _vector(inputs[1], len(extents))]))


def _reshape(op: Any, inputs: Sequence[Fact]) -> Found:
    rank = op.outputs[0].shape.rank
    if rank is None or inputs[0].extents is None:
        return None
    given = _vector(inputs[1], rank)
    # An extent of -1 is what is left: that of the batch, unless another one is.
    left = any(inputs[0].extents) and not any(given)
    extents = tuple(flag or left for flag in given)
    elements = (inputs[0].values,) if rank == 1 and not inputs[0].extents else inputs[0].elements
    return Fact(inputs[0].values, extents, elements)


def _expand_dims(op: Any, inputs: Sequence[Fact]) -> Found:
    extents, axis = inputs[0].extents, _constant(op.inputs[1])
    if extents is None or axis is None:
        return None
    place = int(axis) % (len(extents) + 1)
    return Fact(inputs[0].values, (*extents[:place], False, *extents[place:]), None if extents else (inputs[0].values,))


def _squeeze(op: Any, inputs: Sequence[Fact]) -> Found:
    extents, axes = inputs[0].extents, list(op.get_attr("squeeze_dims"))
    if extents is None or not axes:
        return None
    gone = {axis % len(extents) for axis in axes}
    return Fact(inputs[0].values, tuple(flag for i, flag in enumerate(extents) if i not in gone))


def _transpose(op: Any, inputs: Sequence[Fact]) -> Found:
    extents, order = inputs[0].extents, _constant(op.inputs[1])
    if extents is None or order is None:
        return None
    return Fact(inputs[0].values, tuple(extents[i] for i in order))


def _pack(op: Any, inputs: Sequence[Fact]) -> Found:
    values = any(fact.values for fact in inputs)
    if any(fact.extents is None for fact in inputs):
        return Fact(values)
    extents = _either(fact.extents for fact in inputs)
    place = op.get_attr("axis") % (len(extents) + 1)
    elements = None if extents else tuple(fact.values for fact in inputs)
    return Fact(values, (*extents[:place], False, *extents[place:]), elements)


def _unpack(op: Any, inputs: Sequence[Fact]) -> Found:
    (fact,), count = inputs, len(op.outputs)
    if fact.extents is None:
        return None
    place = op.get_attr("axis") % len(fact.extents)
    extents = (*fact.extents[:place], *fact.extents[place + 1 :])
    return [Fact(fact.values if extents else fact.element(i), extents) for i in range(count)]


def _split(op: Any, inputs: Sequence[Fact]) -> Found:
    fact, count = inputs[1], len(op.outputs)
    if fact.elements is None:
        return None
    each = len(fact.elements) // count
    parts = [fact.elements[i * each : (i + 1) * each] for i in range(count)]
    return [Fact(any(part), (False,), part) for part in parts]


def _concat(op: Any, inputs: Sequence[Fact]) -> Found:
    facts, axis = inputs[:-1], _constant(op.inputs[-1])
    values = any(fact.values for fact in facts)
    if axis is None or any(fact.extents is None for fact in facts):
        return Fact(values)
    extents = _either(fact.extents for fact in facts)
    sizes = [tensor.shape[0] if tensor.shape.rank == 1 else None for tensor in op.inputs[:-1]]
    elements = None
    if None not in sizes:
        elements = tuple(flag for fact, size in zip(facts, sizes, strict=True) for flag in _vector(fact, size))
    return Fact(values, extents, elements)


def _gather(op: Any, inputs: Sequence[Fact]) -> Found:
    table, rows = inputs[0], inputs[1]
    axis = _constant(op.inputs[2]) if op.type == "GatherV2" else 0
    chosen = _constant(op.inputs[1])
    if axis is None or op.get_attr("batch_dims") or rows.extents is None:
        return None
    if table.elements is not None and chosen is not None and np.ndim(chosen) == 0:
        return Fact(table.elements[int(chosen)], ())
    if op.type == "ResourceGather":
        extents: Flags = (False,) * ((op.outputs[0].shape.rank or 0) - len(rows.extents))
        return Fact(rows.values, (*rows.extents, *extents))
    if table.extents is None:
        return None
    place = int(axis) % len(table.extents)
    values = table.values or rows.values
    return Fact(values, (*table.extents[:place], *rows.extents, *table.extents[place + 1 :]))


def _strided_slice(op: Any, inputs: Sequence[Fact]) -> Found:
    fact, bounds = inputs[0], [_constant(tensor) for tensor in op.inputs[1:]]
    if fact.extents is None:
        return None
    values = any(each.values for each in inputs)
    begin_mask, end_mask, ellipsis, new, shrink = (
        op.get_attr(f"{name}_mask") for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    )
    if fact.elements is not None and all(b is not None and len(b) == 1 for b in bounds) and not (ellipsis or new):
        (begin,), (end,), (stride,) = bounds
        if shrink:
            return Fact(fact.elements[begin], ())
        chosen = fact.elements[slice(None if begin_mask else begin, None if end_mask else end, stride)]
        return Fact(any(chosen), (False,), chosen)
    count = op.inputs[1].shape[0]
    if count is None:
        return None
    extents: list[bool] = []
    place = 0
    written = sum(not (new >> i & 1) and not (ellipsis >> i & 1) for i in range(count))
    for i in range(count):
        if ellipsis >> i & 1:
            skipped = len(fact.extents) - written
            extents += fact.extents[place : place + skipped]
            place += skipped
        elif new >> i & 1:
            extents.append(False)
        else:
            if not shrink >> i & 1:
                extents.append(fact.extents[place] or any(each.values for each in inputs[1:]))
            place += 1
    return Fact(values, (*extents, *fact.extents[place:]))


def _reduction(op: Any, inputs: Sequence[Fact]) -> Found:
    fact, axes = inputs[0], _constant(op.inputs[1])
    if fact.extents is None or axes is None:
        return None
    gone = {int(axis) % max(len(fact.extents), 1) for axis in np.ravel(axes)}
    values = fact.values or any(fact.extents[axis] for axis in gone)
    if op.type not in ("ArgMax", "ArgMin") and op.get_attr("keep_dims"):
        return Fact(values, tuple(flag and i not in gone for i, flag in enumerate(fact.extents)))
    return Fact(values, tuple(flag for i, flag in enumerate(fact.extents) if i not in gone))


def _along(op: Any, inputs: Sequence[Fact]) -> Found:
    return Fact(inputs[0].values, inputs[0].extents)


def _matmul(op: Any, inputs: Sequence[Fact]) -> Found:
    values = any(fact.values for fact in inputs)
    first, second = inputs[0].extents, inputs[1].extents
    if first is None or second is None or len(first) != len(second):
        return Fact(values)
    turned = [
        op.get_attr(name) for name in (("transpose_a", "transpose_b") if op.type == "MatMul" else ("adj_x", "adj_y"))
    ]
    rows = first[-1] if turned[0] else first[-2]
    columns = second[-2] if turned[1] else second[-1]
    return Fact(values, (*_either([first[:-2], second[:-2]]), rows, columns))


def _einsum(op: Any, inputs: Sequence[Fact]) -> Found:
    equation = op.get_attr("equation").decode()
    values = any(fact.values for fact in inputs)
    if "." in equation or any(fact.extents is None for fact in inputs):
        return Fact(values)
    operands, result = equation.split("->")
    flags: dict[str, bool] = {}
    for labels, fact in zip(operands.split(","), inputs, strict=True):
        for label, flag in zip(labels, fact.extents or (), strict=True):
            flags[label] = flags.get(label, False) or flag
    return Fact(values, tuple(flags[label] for label in result))


def _rules() -> dict[str, Callable[[Any, Sequence[Fact]], Found]]:
    groups: list[tuple[Callable[[Any, Sequence[Fact]], Found], str]] = [
        (_independent, "Const ReadVariableOp VarHandleOp Rank"),
        (_drawn, "PyFunc EagerPyFunc PyFuncStateless IteratorGetNext"),
        (
            _drawn,
            "RandomUniform RandomStandardNormal RandomUniformInt TruncatedNormal RandomShuffle StatelessRandomUniformV2 "
            "StatelessRandomUniformIntV2 StatelessRandomNormalV2 StatelessTruncatedNormalV2 StatelessRandomUniform "
            "StatelessRandomUniformInt StatelessRandomNormal StatelessShuffle StatelessMultinomial Multinomial",
        ),
        (_same, "Identity Cast StopGradient PreventGradient EnsureShape CheckNumerics Snapshot"),
        (
            _by_element,
            "Add AddV2 Sub Mul Div RealDiv FloorDiv TruncateDiv FloorMod Mod Maximum Minimum Pow Less LessEqual Greater "
            "GreaterEqual Equal NotEqual LogicalAnd LogicalOr Select SelectV2 BitwiseAnd SquaredDifference ClipByValue",
        ),
        (_shape, "Shape ShapeN"),
        (_size, "Size"),
        (_like, "ZerosLike OnesLike"),
        (_range, "Range"),
        (_fill, "Fill"),
        (_broadcast_to, "BroadcastTo"),
        (_tile, "Tile"),
        (_reshape, "Reshape"),
        (_expand_dims, "ExpandDims"),
        (_squeeze, "Squeeze"),
        (_transpose, "Transpose"),
        (_pack, "Pack"),
        (_unpack, "Unpack"),
        (_split, "Split"),
        (_concat, "ConcatV2"),
        (_gather, "GatherV2 ResourceGather"),
        (_strided_slice, "StridedSlice"),
        (_reduction, "Sum Mean Prod Max Min Any All ArgMax ArgMin"),
        (_along, "Cumsum Cumprod BiasAdd ReverseV2 Softmax"),
        (_matmul, "MatMul BatchMatMul BatchMatMulV2"),
        (_einsum, "Einsum"),
    ]
    return {name: rule for rule, names in groups for name in names.split()}


_RULES = _rules()
