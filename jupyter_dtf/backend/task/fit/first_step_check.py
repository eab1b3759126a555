"""Compares the first step of a ``fit`` run with the same step done by the chief alone on the whole batch.

For each of Keras's own parts, the project's tests compare distributed training with training in one process. They
cannot cover custom parts: a loss that compares the examples of a batch, a layer that averages over them, an optimizer
that uses more than gradients. For such models, the chief repeats the first step as one process would do it, and warns
if the resulting weights differ. Non-trainable weights are compared with the values that they will have when the tasks
have averaged them. The results of custom metrics are compared too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ....errors import Unavailable
from ..model.changed_attributes import put_back, values_of
from ..model.model_state import seed_states
from .job import FitJob
from .metric_check import Differing, differing_metrics
from .own_parts import has_own_train_step, own_metrics, own_parts, warn_of_batch_metrics, warn_of_padding
from .repeated_step import Parts, RepeatedStep, Values
from .steps import batch_size

BUDGET_S = 0.2
"""The largest estimated duration of the repetition, in seconds; a longer one is not attempted."""
MOST_BYTES = 32 << 20
"""A step is repeated only if the copied variables, and the copied batches, have at most this many bytes."""
LIMITS = {"float16": 0.3, "bfloat16": 0.3}
LIMIT = 1e-3
"""The largest relative difference between two updates to a variable that is attributed to rounding. In float32, those
of the models in the matrix differ by less than 1e-4, except those of layers before a 3D max pooling (97%), probably
because of ties between its inputs.
"""
SEVERAL_LIMIT = 0.03
"""The same for several steps at once, in which rounding errors grow. After four steps of a residual network with AdamW,
a weight differed by 0.9%.
"""
METRIC_LIMIT, HALF_METRIC_LIMIT = 1e-3, 0.1
"""The same for a metric's results: in float32, and with a lower precision."""
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
_MOST_EXAMPLES = 4096
"""The largest batch for which a custom ``train_step`` is repeated, because its cost cannot be estimated in parts."""
_LAYER_S = 0.001
"""The estimated time in seconds that TensorFlow takes to run a small layer outside of a graph."""
WARNING = "The first step differs from that of one process"
METRIC_WARNING = "A metric differs from that of one process"
NOT_COMPARED = "The first step was not compared with that of one process"


class Guard:
    """Compares the first step of ``model`` with the same step done by the chief alone.

    ``first_batches(count)`` returns the first ``count`` global batches of the training run. ``fetch`` copies weights
    that are trained elsewhere into the model. ``parts``: the custom parts of the model; ``metrics``: the names of its
    custom metrics, if they are computed on shares.
    """

    def __init__(
        self,
        model: Any,
        ctx: Any,
        parts: Parts,
        first_batches: Callable[[int], list[Any]],
        fetch: Callable[[], None] = lambda: None,
        *,
        own: list[str],
        metrics: list[str],
    ) -> None:
        self._model = model
        self._ctx = ctx
        self._parts = parts
        self._first_batches = first_batches
        self._fetch = fetch
        self._own = own
        self._metrics = metrics
        self._step = RepeatedStep(model, parts)
        self._before: Values | None = None
        self._float32_limit = LIMIT
        self.before = _Before(self)
        """A callback that runs after all others, before the step changes the weights."""
        self.after = _After(self)
        """A callback that runs before all others, after the step has changed the weights."""

    def remember(self) -> None:
        """Copy the variables before the first step, unless repeating the step would be expensive."""
        held = sum(int(np.prod(v.shape)) * tf.as_dtype(v.dtype).size for v in self._step.variables)
        layers = len(self._model._flatten_layers())
        if held > MOST_BYTES:
            self._skip(f"Its variables have {held / (1 << 20):.0f} MiB; at most {MOST_BYTES >> 20} MiB are compared")
        elif self._fits(layers * _LAYER_S):
            self._before = self._step.values()
        else:
            self._skip(f"With {layers} layers, repeating it would take longer than {BUDGET_S} s")

    def _fits(self, forward_s: float, budgets: float = 1) -> bool:
        """Return whether the comparison is likely to take at most ``budgets`` times the budget if the forward passes of
        its batches take ``forward_s`` seconds. If it does not fit because of the metrics, these are not compared.
        """
        if self._own and self._metrics and self._repetitions * forward_s > budgets * BUDGET_S:
            self._metrics = []
        return self._repetitions * forward_s <= budgets * BUDGET_S

    @property
    def _repetitions(self) -> int:
        """The cost of the comparison, as a multiple of a forward pass. A backward pass takes twice as long as one."""
        of_metrics = (6 if has_own_train_step(self._model) else 2) if self._metrics else 0
        return of_metrics + (3 if self._own else 0)

    def _skip(self, why: str) -> None:
        self._ctx.note("info", NOT_COMPARED, why)

    def compare(self, steps: int) -> None:
        """Repeat the first ``steps`` steps, which all tasks have completed, on this task alone, compare the results,
        and restore all variables.
        """
        before, self._before = self._before, None
        if before is None:
            return
        self._float32_limit = LIMIT if steps == 1 else SEVERAL_LIMIT
        self._fetch()
        step = self._step
        after, attributes = step.values(), values_of(self._model)
        states: list[Any] = []
        metrics: list[Differing] = []
        try:
            batches = self._first_batches(steps)
            if len(batches) < steps:  # fewer steps would give different weights
                raise Unavailable(f"of its {steps} batches, only {len(batches)} are still kept")
            step.assign(before)
            if why := self._is_expensive(batches):
                self._skip(why)
                return
            if self._own:
                step.assign(before)
                alone, gradients = step.whole(batches)
                states = self._differing_states(before, after, alone, batches)
            if self._metrics:
                metrics = differing_metrics(step, self._metrics, batches[0], before, self._metric_limit())
        except Exception as error:
            self._skip(f"Repeating it failed: {error}")
            return
        finally:
            step.assign(after)
            put_back(self._model, attributes)
        if self._own:
            self._judge(before, after, alone, gradients)
        for variable in states:
            self._warn_of_state(variable)
        for differing in metrics:
            self._warn_of_metric(differing)

    def _is_expensive(self, batches: list[Any]) -> str:
        """Return why the comparison is likely to exceed the budget, according to the times of forward passes on some
        of the examples; empty if it is not.

        The number of examples is increased from one pass to the next, because the cost of a batch may be quadratic in
        its size.
        """
        size = sum(int(np.asarray(leaf).nbytes) for leaf in tf.nest.flatten(batches) if _is_dense(leaf))
        if size > MOST_BYTES:
            return f"Its batch has {size / (1 << 20):.0f} MiB; at most {MOST_BYTES >> 20} MiB are compared"
        takes_long = f"Repeating it would take longer than {BUDGET_S} s"
        x = keras.utils.unpack_x_y_sample_weight(batches[0])[0]
        examples = int(batch_size(batches[0]))
        if has_own_train_step(self._model):
            return "" if examples <= _MOST_EXAMPLES else f"A batch of {examples} examples may take too long"
        counts = [1, 1]  # the first call includes one-time work
        while counts[-1] * _LEAP <= examples:
            counts.append(counts[-1] * _LEAP)
        times: list[float] = []
        for count in counts:
            if times and not self._fits(len(batches) * times[-1], 2 if len(times) == 1 else 1):
                return takes_long
            some = tf.nest.map_structure(lambda leaf: leaf[:count], x)  # noqa: B023
            begun = time.perf_counter()
            self._model(some, training=False)
            times.append(time.perf_counter() - begun)
        each = max(times[-1] - times[1], 0.0) / max(counts[-1] - 1, 1)
        return "" if self._fits(len(batches) * (times[1] + each * examples)) else takes_long

    def _judge(self, before: list[Any], after: list[Any], alone: list[Any], gradients: dict[int, Any]) -> None:
        position = self._step.position()
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

    def _limit(self, variable: Any) -> float:
        dtype = keras.backend.standardize_dtype(variable.dtype)
        policies = {layer.compute_dtype for layer in self._model._flatten_layers()}
        whole = self._float32_limit
        if "float64" not in {dtype, *policies} and _uses_tensor_float():
            whole = TENSOR_FLOAT_LIMIT
        return LIMITS.get(dtype, max((LIMITS[name] for name in policies if name in LIMITS), default=whole))

    # -- weights that are not trained -----------------------------------------------------------------------------

    def _differing_states(self, before: list[Any], after: list[Any], alone: list[Any], batches: list[Any]) -> list[Any]:
        """Return the non-trainable weights that a step on shares changes differently than a step on the whole batch.

        The moving statistics of Keras's own layers are not included, because they are intentionally computed from
        shares.
        """
        statistics = {id(v) for layer in self._model._flatten_layers() for v in _statistics(layer)}
        states = [v for v in self._model.non_trainable_weights if id(v) not in statistics]
        position = self._step.position()

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

    def _averaged(self, before: Values, after: Values, states: list[Any], batches: list[Any]) -> Values:
        """Return ``after`` with the values of ``states`` replaced by the mean that the tasks will compute.

        The mean is computed from two groups of shares, each processed as one share, because a mean over examples is
        also the weighted mean over the two groups.
        """
        step = self._step
        position = step.position()
        starts = [before]
        step.assign(before)
        for batch in batches[:-1]:
            step.whole([batch])
            starts.append(step.values())
        count = self._parts.count
        weights, values = [], []
        for first, last in ((0, count // 2), (count // 2, count)):
            own = [before[position[id(v)]] for v in states]
            examples = 0
            for batch, start in zip(batches, starts, strict=True):
                step.assign(start)
                for variable, value in zip(states, own, strict=True):
                    variable.assign(value)
                examples += step.shares(batch, first, last)
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

    def _metric_limit(self) -> float:
        is_exact = all(self._limit(variable) <= SEVERAL_LIMIT for variable in self._model.trainable_variables)
        return METRIC_LIMIT if is_exact else HALF_METRIC_LIMIT

    def _warn_of_metric(self, differing: Differing) -> None:
        by_share, whole = (
            np.array2string(np.asarray(value), precision=6, threshold=8)
            for value in (differing.by_share, differing.whole)
        )
        self._ctx.note(
            "warning",
            METRIC_WARNING,
            f"On shares of the first batch, {differing.name} is {by_share}; in one process, on the whole batch, it is "
            f"{whole}. Weights are not affected unless a callback uses it. Because each task computes metrics on its "
            "share of each batch, the variables of a custom metric must be additive over examples (sums and counts), "
            "and the value of a metric function must be a mean over examples. check=False turns this comparison off",
        )

    def _warn(self, apart: float, path: str) -> None:
        own = ", ".join(self._own)
        self._ctx.note(
            "warning",
            WARNING,
            f"The change to {path} in the first step on {self._parts.count} shares of the batch differs by "
            f"{apart:.1%} from the change in one process on the whole batch. These parts may be the cause: {own}. A "
            "loss or a layer must process each example independently; one that compares the examples of a batch sees "
            "only a share of it. dtf.allgather gathers the outputs of all tasks; the loss of a dtf.Pipeline always "
            "sees the whole batch. check=False turns this comparison off",
        )


def guard_of(
    job: FitJob,
    model: Any,
    ctx: Any,
    parts: Parts,
    data: Any,
    *,
    exact: bool,
    fetch: Callable[[], None] = lambda: None,
    divides_metrics: bool = True,
) -> Guard | None:
    """Return the guard of a ``fit`` run on the chief, or None if a comparison is unnecessary or impossible.

    ``exact``: whether the first step must equal that of one process (``Checks.is_exact``). ``divides_metrics``: whether
    metrics are computed on shares of a batch.
    """
    if not job.check or not ctx.is_chief or not exact or parts.count == 1:
        return None
    own, metrics = own_parts(model), own_metrics(model) if divides_metrics else []
    if divides_metrics:
        warn_of_batch_metrics(model, ctx)
    if not own and not metrics:
        return None
    warn_of_padding(model, ctx)
    why = ""
    if data.first_batches is None:
        why = "Its data cannot be read again"
    elif callable(job.model) and not parts.in_turn and seed_states(model):
        why = "Each task has created its own model, with random numbers of its own"
    if why:
        ctx.note("info", NOT_COMPARED, why)
        return None
    return Guard(model, ctx, parts, data.first_batches, fetch, own=own, metrics=metrics)


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


def _is_dense(leaf: Any) -> bool:
    return leaf is not None and hasattr(leaf, "nbytes")
