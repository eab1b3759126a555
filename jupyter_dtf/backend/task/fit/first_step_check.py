"""Compares the first step of a ``fit`` run with the same step done by the chief alone on the whole batch.

For each of Keras's own parts, the project's tests compare distributed training with training in one process. They
cannot cover custom parts: a loss that compares the examples of a batch, a layer that averages over them, an optimizer
that uses more than gradients. For such models, the chief repeats the first step as one process would do it, and warns
if the resulting weights differ. Non-trainable weights are compared with the values that they will have when the tasks
have averaged them.

The repetition reproduces intended differences: normalization layers compute their statistics, and random layers draw
their numbers, separately for each task's share of the batch.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from ....errors import Unavailable
from ..model.model_state import seed_states
from .gradient_sync import optimizers_of
from .job import FitJob
from .models import seed_of_task
from .replaced_attributes import hooked, unhooked
from .steps import batch_size

BUDGET_S = 0.2
"""The largest estimated duration of the repetition, in seconds; a longer one is not attempted."""
MOST_BYTES = 32 << 20
"""A step is repeated only if the copied variables, and the copied batches, have at most this many bytes."""
LIMITS = {"float16": 0.3, "bfloat16": 0.3}
LIMIT = 0.03
"""The largest relative difference between two updates to a variable that is attributed to rounding."""
TENSOR_FLOAT_LIMIT = 0.3
"""The same if a GPU multiplies float32 numbers as TensorFloat-32, with the precision of float16. A convolution before a
batch normalization differed by 15% with Adam, on an H200.
"""
FAINT = 1e-4
"""Gradients are ignored below this fraction of the variable's largest gradient, or of a tenth of the model's largest
gradient if that is larger: they may be rounding errors, which some optimizers amplify to a step of full size.
"""
_LEAP = 4
"""The factor by which the number of examples grows from one timing to the next, up to the size of the batch."""
_LAYER_S = 0.001
"""The estimated time in seconds that TensorFlow takes to run a small layer outside of a graph."""
_KNOWN = ("keras.", "tensorflow.", "builtins", "jupyter_dtf.backend.task.")
WARNING = "The first step differs from that of one process"


@dataclass(frozen=True)
class Parts:
    """The division of a batch into ``count`` contiguous shares whose sizes differ by at most one example.

    ``in_turn``: whether one client processes the shares, and draws its random numbers for them, one after the other;
    otherwise, each task draws its own random numbers.
    """

    count: int
    in_turn: bool = False

    def bounds(self, examples: int) -> list[tuple[int, int]]:
        """Return the start and end of each share."""
        count = self.count if examples >= self.count else (min(self.count, examples) if self.in_turn else self.count)
        return list(pairwise(examples * number // count for number in range(count + 1)))


def own_parts(model: Any) -> list[str]:
    """Return the names of the model's parts that affect its weights and may use several examples at once: those that
    are not Keras's own, and text layers that pad to the longest text.

    Operations between layers are included: ``keras.ops.mean(x, axis=0)`` is a Keras operation, but the user chooses the
    axis along which it averages.
    """
    found: dict[str, None] = {}
    base = keras.Model
    kinds = [type(model)] if any(
        getattr(type(model), name) is not getattr(base, name) for name in ("train_step", "compute_loss", "call")
    ) else []  # fmt: skip
    for layer in model._flatten_layers():
        kinds.append(type(layer))
        for operation in getattr(layer, "operations", ()):  # operations of a functional model
            if not isinstance(operation, keras.Layer):
                found[operation.name] = None
        for name, value in vars(layer).items():
            if callable(value) and not hasattr(type(layer), name):  # Keras wraps some methods of the instance
                kinds.append(value if hasattr(value, "__qualname__") else type(value))
    compiled = model._compile_config.config if model._compile_config is not None else {}
    kinds += [value if hasattr(value, "__qualname__") else type(value) for value in _leaves(compiled.get("loss"))]
    kinds += [type(optimizer) for optimizer in optimizers_of(model)]
    for kind in kinds:
        if not (getattr(kind, "__module__", "") or "").startswith(_KNOWN):
            found[getattr(kind, "__qualname__", str(kind)).rpartition(".")[2]] = None
    for layer in padding_layers(model):
        found[layer.name] = None
    return list(found)


def padding_layers(model: Any) -> list[Any]:
    """Return the layers that pad their outputs to the longest text of a batch, so that the outputs depend on the other
    examples.
    """
    return [
        layer
        for layer in model._flatten_layers()
        if isinstance(layer, keras.layers.TextVectorization)
        and (config := layer.get_config())["output_mode"] == "int"
        and config["output_sequence_length"] is None
        and not config["ragged"]
    ]


def warn_of_padding(model: Any, ctx: Any) -> None:
    """Warn if texts are padded to the longest one and nothing masks the padding, because a share of a batch may have a
    shorter longest text. The first step may not show the difference.
    """
    padding = padding_layers(model)
    if padding and not any(getattr(layer, "mask_zero", False) for layer in model._flatten_layers()):
        ctx.note(
            "warning",
            "Padding depends on how the batch is divided",
            f"{padding[0].name} pads each text to the longest one of a share of the batch; in one process, it pads to "
            "the longest one of the whole batch. Unless later layers ignore the padding, the model trains differently. "
            "Set its output_sequence_length, or use Embedding(mask_zero=True) with layers that support masks",
        )


def _beside(model: Any) -> list[Any]:
    """Return the ``tf.Variable`` objects held by the user's layers, metrics and losses."""
    metrics = [*model.metrics, *(inner for metric in model.metrics for inner in getattr(metric, "metrics", ()))]
    owners = [*model._flatten_layers(), *metrics, *_leaves(getattr(model, "loss", None))]
    held = [value for owner in owners if hasattr(owner, "__dict__") for value in _leaves(list(vars(owner).values()))]
    return [value for value in held if isinstance(value, tf.Variable)]


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    elif value is not None and not isinstance(value, str):
        yield value


class Guard:
    """Compares the first step of ``model`` with the same step done by the chief alone.

    ``first_batches(count)`` returns the first ``count`` global batches of the training run. ``fetch`` copies weights
    that are trained elsewhere into the model.
    """

    def __init__(
        self,
        model: Any,
        ctx: Any,
        parts: Parts,
        first_batches: Callable[[int], list[Any]],
        fetch: Callable[[], None] = lambda: None,
    ) -> None:
        self._model = model
        self._ctx = ctx
        self._parts = parts
        self._first_batches = first_batches
        self._fetch = fetch
        self._optimizers = optimizers_of(model)
        slots = [variable for optimizer in self._optimizers for variable in optimizer.variables]
        variables = [*model.variables, *model.metrics_variables, *slots, *_beside(model)]
        self._variables = list({id(v): v for v in variables}.values())
        self._before: list[npt.NDArray[Any]] | None = None
        self.before = _Before(self)
        """A callback that runs after all others, before the step changes the weights."""
        self.after = _After(self)
        """A callback that runs before all others, after the step has changed the weights."""

    def remember(self) -> None:
        """Copy the variables before the first step, unless repeating the step would be expensive."""
        if self._is_small():
            self._before = [np.array(v.numpy()) for v in self._variables]

    def _is_small(self) -> bool:
        """Return whether the step may be cheap to repeat, judging by the sizes of the variables and the number of
        layers.
        """
        held = sum(int(np.prod(v.shape)) * tf.as_dtype(v.dtype).size for v in self._variables)
        return held <= MOST_BYTES and 3 * len(self._model._flatten_layers()) * _LAYER_S <= BUDGET_S

    def compare(self, steps: int) -> None:
        """Repeat the first ``steps`` steps, which all tasks have completed, on this task alone, compare the results,
        and restore all variables.
        """
        before, self._before = self._before, None
        if before is None:
            return
        self._fetch()
        after = [np.array(v.numpy()) for v in self._variables]
        try:
            batches = self._first_batches(steps)
            if len(batches) < steps:  # fewer steps would give different weights
                raise Unavailable(f"of its {steps} batches, only {len(batches)} are still kept")
            self._assign(before)
            if not self._is_cheap(batches):
                return
            self._assign(before)
            alone, gradients = self._alone(batches)
            states = self._differing_states(before, after, alone, batches)
        except Exception as error:
            self._ctx.note(
                "info", "The first step was not compared with that of one process", f"Repeating it failed: {error}"
            )
            return
        finally:
            self._assign(after)
        self._judge(before, after, alone, gradients)
        for variable in states:
            self._warn_of_state(variable)

    def _assign(self, values: Sequence[Any]) -> None:
        for variable, value in zip(self._variables, values, strict=True):
            variable.assign(value)

    def _is_cheap(self, batches: list[Any]) -> bool:
        """Return whether the step is likely to stay within the budget, according to the times of forward passes on some
        of the examples.

        The number of examples is increased from one pass to the next, because the cost of a batch may be quadratic in
        its size.
        """
        sizes = sum(int(np.asarray(leaf).nbytes) for leaf in tf.nest.flatten(batches) if _is_dense(leaf))
        if sizes > MOST_BYTES:
            return False
        x = keras.utils.unpack_x_y_sample_weight(batches[0])[0]
        examples = int(batch_size(batches[0]))
        if not self._can_be_called():
            return examples <= 4096
        counts = [1, 1]  # the first call includes one-time work
        while counts[-1] * _LEAP <= examples:
            counts.append(counts[-1] * _LEAP)
        times: list[float] = []
        for count in counts:
            if times and len(batches) * 3 * times[-1] > (2 if len(times) == 1 else 1) * BUDGET_S:
                return False
            some = tf.nest.map_structure(lambda leaf: leaf[:count], x)  # noqa: B023
            begun = time.perf_counter()
            self._model(some, training=False)
            times.append(time.perf_counter() - begun)
        each = max(times[-1] - times[1], 0.0) / max(counts[-1] - 1, 1)
        return len(batches) * 3 * (times[1] + each * examples) <= BUDGET_S  # backward takes twice as long as forward

    def _can_be_called(self) -> bool:
        return type(self._model).train_step is keras.Model.train_step

    def _alone(self, batches: list[Any]) -> tuple[list[Any], dict[int, Any]]:
        """Train on the batches in this task alone. Return the resulting values of ``_variables``, and the largest
        absolute gradients of the steps, keyed by the variables' ids.
        """
        gradients: dict[int, Any] = {}
        with ExitStack() as stack:
            for optimizer in self._optimizers:
                stack.enter_context(unhooked(optimizer))
                apply = partial(_noting_apply, optimizer, gradients)
                stack.enter_context(hooked(optimizer, apply=apply))
            for batch in batches:
                self._step(batch, 0, self._parts.count)
        return [np.array(v.numpy()) for v in self._variables], gradients

    def _step(self, batch: Any, first: int, last: int) -> int:
        """Take a step on the shares of a batch from ``first`` up to, but not including, ``last``. Return the number of
        examples in these shares.
        """
        bounds = list(enumerate(self._parts.bounds(int(batch_size(batch)))))[first:last]
        start, end = (bounds[0][1][0], bounds[-1][1][1]) if bounds else (0, 0)
        if end > start:
            shares = [(number, low - start, high - start) for number, (low, high) in bounds]
            data = batch
            if (first, last) != (0, self._parts.count):
                data = tf.nest.map_structure(lambda leaf: None if leaf is None else leaf[start:end], batch)
            with self._as_the_tasks_do(shares):
                type(self._model).train_step(self._model, data)
        return end - start

    @contextmanager
    def _as_the_tasks_do(self, shares: list[tuple[int, int, int]]) -> Iterator[None]:
        """Inside this context, layers that intentionally use only a task's share of the batch run once for each share.

        ``shares``: the number, start and end of each share.
        """
        with ExitStack() as stack:
            for layer in self._model._flatten_layers():
                generators = list(layer._seed_generators)
                if generators and not _is_kerass(layer):
                    raise ValueError(f"{type(layer).__name__} draws random numbers, which differ between the tasks")
                if generators or isinstance(layer, keras.layers.BatchNormalization):
                    call = _by_share(layer.call, generators, shares, self._parts.in_turn)
                    stack.enter_context(hooked(layer, call=call))
            yield

    def _judge(self, before: list[Any], after: list[Any], alone: list[Any], gradients: dict[int, Any]) -> None:
        position = self._positions()
        largest = max((float(gradient.max(initial=0.0)) for gradient in gradients.values()), default=0.0)
        worst: tuple[float, str] = (0.0, "")
        for variable in self._model.trainable_variables:
            number = position[id(variable)]
            told = _told(gradients.get(id(variable)), before[number].shape, largest)
            ours, theirs = ((x[number] - before[number]).astype(np.float64)[told] for x in (after, alone))
            apart = _apart(before[number], ours, theirs)
            if apart > max(worst[0], self._limit(variable)):
                worst = (apart, variable.path)
        if worst[1]:
            self._warn(*worst)

    def _positions(self) -> dict[int, int]:
        """Return the index of each variable in ``_variables``, keyed by the variable's id."""
        return {id(v): number for number, v in enumerate(self._variables)}

    def _limit(self, variable: Any) -> float:
        dtype = keras.backend.standardize_dtype(variable.dtype)
        policies = {layer.compute_dtype for layer in self._model._flatten_layers()}
        whole = TENSOR_FLOAT_LIMIT if "float64" not in {dtype, *policies} and _uses_tensor_float() else LIMIT
        return LIMITS.get(dtype, max((LIMITS[name] for name in policies if name in LIMITS), default=whole))

    # -- weights that are not trained -----------------------------------------------------------------------------

    def _differing_states(self, before: list[Any], after: list[Any], alone: list[Any], batches: list[Any]) -> list[Any]:
        """Return the non-trainable weights that a step on shares changes differently than a step on the whole batch.

        The moving statistics of Keras's own layers are not included, because they are intentionally computed from
        shares.
        """
        statistics = {id(v) for layer in self._model._flatten_layers() for v in _statistics(layer)}
        states = [v for v in self._model.non_trainable_weights if id(v) not in statistics]
        position = self._positions()

        def differing(found: list[Any]) -> list[Any]:
            chosen = []
            for variable in states:
                start, ours, theirs = (
                    each[position[id(variable)]].astype(np.float64) for each in (before, found, alone)
                )
                if _apart(start, ours - start, theirs - start) > self._limit(variable):
                    chosen.append(variable)
            return chosen

        states = differing(after)
        if states and not self._parts.in_turn:  # each task has its own values until the end of the epoch
            states = differing(self._averaged(before, after, states, batches))
        return states

    def _averaged(self, before: list[Any], after: list[Any], states: list[Any], batches: list[Any]) -> list[Any]:
        """Return ``after`` with the values of ``states`` replaced by the mean that the tasks will compute.

        The mean is computed from two groups of shares, each processed as one share, because a mean over examples is
        also the weighted mean over the two groups.
        """
        position = self._positions()
        starts = [before]
        self._assign(before)
        for batch in batches[:-1]:
            self._alone([batch])
            starts.append([np.array(v.numpy()) for v in self._variables])
        count = self._parts.count
        weights, values = [], []
        for first, last in ((0, count // 2), (count // 2, count)):
            own = [before[position[id(v)]] for v in states]
            examples = 0
            for batch, start in zip(batches, starts, strict=True):
                self._assign(start)
                for variable, value in zip(states, own, strict=True):
                    variable.assign(value)
                with ExitStack() as stack:
                    for optimizer in self._optimizers:
                        stack.enter_context(unhooked(optimizer))
                    examples += self._step(batch, first, last)
                own = [np.array(v.numpy()) for v in states]
            weights.append(examples)
            values.append(own)
        averaged = list(after)
        for variable, *parts in zip(states, *values, strict=True):
            if keras.backend.is_float_dtype(variable.dtype):  # for other types, the chief's values remain
                averaged[position[id(variable)]] = np.average(np.asarray(parts, np.float64), 0, weights)
        return averaged

    def _warn_of_state(self, variable: Any) -> None:
        owners = [layer for layer in self._model._flatten_layers() if any(v is variable for v in _own(layer))]
        whose = f", a weight of {owners[-1].name} ({type(owners[-1]).__name__})," if owners else ""
        self._ctx.note(
            "warning",
            WARNING,
            f"The first step on {self._parts.count} shares of the batch has not changed {variable.path}{whose} in the "
            "same way as one process would have on the whole batch. It is not trained, but computed separately from "
            "each share, and then averaged; in a pipeline, each share changes it in turn. It must therefore be a mean "
            "over examples, not a sum, a count or a maximum. check=False turns this comparison off",
        )

    def _warn(self, apart: float, path: str) -> None:
        own = ", ".join(own_parts(self._model))
        self._ctx.note(
            "warning",
            WARNING,
            f"The change to {path} in the first step on {self._parts.count} shares of the batch differs by "
            f"{apart:.0%} from the change in one process on the whole batch. These parts may be the cause: {own}. A "
            "loss or a layer must process each example independently; one that compares the examples of a batch sees "
            "only a share of it. dtf.allgather gathers the outputs of all tasks; the loss of a dtf.Pipeline always "
            "sees the whole batch. check=False turns this comparison off",
        )


def guard_of(
    job: FitJob, model: Any, ctx: Any, parts: Parts, data: Any, *, exact: bool, fetch: Callable[[], None] = lambda: None
) -> Guard | None:
    """Return the guard of a ``fit`` run on the chief, or None if a comparison is unnecessary or impossible.

    ``exact``: whether the first step must equal that of one process (``Checks.is_exact``).
    """
    wanted = job.check and ctx.is_chief and data.first_batches is not None
    if not wanted or not exact or parts.count == 1 or not own_parts(model):
        return None
    warn_of_padding(model, ctx)
    if callable(job.model) and not parts.in_turn and seed_states(model):
        return None  # every task has created its own model and seeds
    return Guard(model, ctx, parts, data.first_batches, fetch)


class _Before(keras.callbacks.Callback):
    def __init__(self, guard: Guard) -> None:
        super().__init__()
        self._guard: Guard | None = guard

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if self._guard is not None:
            self._guard.remember()
            self._guard = None


class _After(keras.callbacks.Callback):
    def __init__(self, guard: Guard) -> None:
        super().__init__()
        self._guard: Guard | None = guard

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._guard is not None:
            self._guard.compare(batch + 1)
            self._guard = None


def _noting_apply(optimizer: Any, gradients: dict[int, Any], grads: Any, trainable_variables: Any = None) -> Any:
    """Call the optimizer's own ``apply``, and record the largest absolute gradients of all steps so far."""
    grads = list(grads)
    variables = optimizer._trainable_variables if trainable_variables is None else list(trainable_variables)
    for gradient, variable in zip(grads, variables, strict=True):
        if gradient is not None:
            found = np.abs(tf.convert_to_tensor(gradient).numpy())
            gradients[id(variable)] = np.maximum(found, gradients.get(id(variable), 0.0))
    return type(optimizer).apply(optimizer, grads, trainable_variables)


def _apart(before: Any, ours: Any, theirs: Any) -> float:
    """Return the relative difference between two changes to a variable; 0 if both are no larger than rounding
    errors.
    """
    size = max(np.linalg.norm(ours), np.linalg.norm(theirs))
    rounding = np.finfo(np.float32).eps * np.linalg.norm(before.astype(np.float64))
    return 0.0 if size <= 100 * rounding else float(np.linalg.norm(ours - theirs) / size)


def _uses_tensor_float() -> bool:
    """Return whether products of float32 matrices may be rounded to TensorFloat-32 (on GPUs from Ampere on)."""
    allowed = tf.config.experimental.tensor_float_32_execution_enabled()
    return bool(allowed and os.environ.get("NVIDIA_TF32_OVERRIDE") != "0" and tf.config.list_physical_devices("GPU"))


def _own(layer: Any) -> list[Any]:
    """Return a layer's weights without those of its inner layers."""
    return [*layer._trainable_variables, *layer._non_trainable_variables]


def _statistics(layer: Any) -> list[Any]:
    """Return the moving statistics of a Keras normalization layer."""
    if not isinstance(layer, keras.layers.BatchNormalization) or not layer.built:
        return []
    return [layer.moving_mean, layer.moving_variance]


def _told(gradient: Any, shape: tuple[int, ...], largest: float) -> Any:
    """Return a mask of the significant elements of a variable's gradient. ``largest``: the model's largest gradient."""
    if gradient is None or not gradient.size:
        return np.ones(shape, bool)
    return gradient > FAINT * max(float(gradient.max()), 0.1 * largest)


def _is_kerass(layer: Any) -> bool:
    return type(layer).__module__.startswith("keras.")


def _is_dense(leaf: Any) -> bool:
    return leaf is not None and hasattr(leaf, "nbytes")


def _by_share(
    call: Callable[..., Any],
    generators: list[Any],
    shares: list[tuple[int, int, int]],
    in_turn: bool,
) -> Callable[..., Any]:
    """Wrap a layer's ``call`` so that it runs once for each share of the batch, with that share's random numbers."""

    def call_by_share(*args: Any, **kwargs: Any) -> Any:
        states = [np.array(generator.state.numpy()) for generator in generators]
        examples = shares[-1][2]

        def share(number: int, low: int, high: int) -> Any:
            for generator, state in zip(generators, states, strict=True):
                if not in_turn:
                    generator.state.assign(seed_of_task(state, number))
            cut = partial(_cut, examples, low, high)
            return call(*tf.nest.map_structure(cut, list(args)), **tf.nest.map_structure(cut, kwargs))

        outputs = [share(number, low, high) for number, low, high in shares if high > low]
        if not in_turn:
            for generator, state in zip(generators, states, strict=True):
                generator.state.assign([state[0], generator.state.numpy()[1]])
        return tf.nest.map_structure(lambda *each: tf.concat(each, 0), *outputs)

    return call_by_share


def _cut(examples: int, low: int, high: int, leaf: Any) -> Any:
    """Return the share's rows of ``leaf`` if it is a tensor with one row per example, otherwise ``leaf`` itself."""
    if isinstance(leaf, tf.Tensor) and leaf.shape.rank and leaf.shape[0] == examples:
        return leaf[low:high]
    return leaf
