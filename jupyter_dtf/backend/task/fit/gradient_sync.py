"""Makes optimizers apply the mean gradient over all examples of all tasks.

Each update needs one exchange for everything that the tasks must agree on: each task's gradients multiplied by its
number of examples, and five more values: the number of examples, whether to stop, the chief's learning rate, the
number of checkpoints that the chief has requested, and the number of the step, which must be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from ....schema.strategy import AllReduce
from ..collectives.primitive import Reducer
from .accumulation import Accumulation
from .arithmetic import Gradient, Rows, clip_by_global_norm, divided, merged, nothing_like, times
from .assigned_weights import Outside, flattened, take_mean
from .learning_rate import LinearScaling, scaled
from .lookups import Lookups
from .reduction import Reduction

_MOST_STEPS = 1 << 10
_OUT_OF_STEP = (
    "`model`: train_step must apply an optimizer in the same steps on all tasks, because gradients are averaged, got "
    "tasks that apply one in different steps. A condition for it must not depend on the task's share of the batch"
)


@dataclass(frozen=True)
class Agreement:
    """The values on which the tasks agreed in the last exchange."""

    examples: float
    """The total number of examples, over all tasks and all steps whose gradients have been applied."""
    stop: bool
    learning_rate: float
    """The learning rate of the last update."""
    checkpoints: int = 0
    """The number of checkpoints that the chief has requested."""


class GradientSync:
    """Replaces the ``apply`` of a model's optimizers with a collective.

    ``may_end``: whether there may be a step in which no task has examples; such a step ends the epoch.
    ``steps_per_epoch`` is None if it is unknown. ``steps_of``: see ``TaskData``. ``scaling``: None if the learning rate
    is not scaled. ``begin_epoch`` must be called before every epoch. After a call to ``begin``, while a step is traced
    or run eagerly, ``examples`` is the number of this task's examples in the step, a scalar tensor.
    """

    def __init__(
        self,
        reducer: Reducer,
        strategy: AllReduce,
        *,
        may_end: bool = False,
        steps_per_epoch: int | None = None,
        steps_of: Callable[[int], int] | None = None,
        scaling: LinearScaling | None = None,
        whole: bool = False,
    ) -> None:
        self._reducer = reducer
        self._strategy = strategy
        self.may_end = may_end
        self.whole = whole
        """Whether an update is atomic: it is applied only after the last exchange of its step."""
        self._steps_per_epoch = steps_per_epoch
        self._steps_of = steps_of
        self._last = tf.Variable(steps_per_epoch or 0, trainable=False, dtype=tf.int64)
        self._scaling = scaling
        self._epoch = tf.Variable(0, trainable=False, dtype=tf.int64)
        self._step = tf.Variable(0, trainable=False, dtype=tf.int64)
        self._ended = tf.Variable(False, trainable=False)
        self._stop = tf.Variable(0.0, trainable=False)
        self._stop_wanted = False
        self._checkpoints = tf.Variable(0.0, trainable=False)
        self.checkpoints_asked = 0
        self._optimizers: list[_SharedOptimizer] = []
        self.examples: tf.Tensor | None = None
        self.applied = False
        """Whether an optimizer was applied in the step being traced."""
        self.lookups: Lookups | None = None
        """The lookups of the step being traced; None: a single task has all examples."""
        self.outside: Outside | None = None
        """The assignments of the step being traced; None: there are no other tasks to agree with."""
        self.collectives: list[tuple[Callable[[], Any], Any]] = []
        """The functions that a task without examples calls, in this order, to participate in the step, each with the
        graph in which it was recorded.
        """

    def install(self, optimizer: Any) -> None:
        """Make the optimizer's ``apply`` a collective. Its class is unchanged, so saved models are not affected."""
        reduction = Reduction(self._reducer, self._strategy, f"gradients {len(self._optimizers)}")
        shared = _SharedOptimizer(optimizer, self, self._reducer, self._strategy, reduction)
        self._optimizers.append(shared)
        optimizer.apply = shared.apply
        if has_own_apply_gradients(optimizer):
            optimizer.apply_gradients = shared.apply_gradients
        update_directly(getattr(optimizer, "inner_optimizer", optimizer))

    def begin_anew(self) -> None:
        """Prepare for a new set of tasks, in which no checkpoint has been requested yet."""
        self.checkpoints_asked = 0
        self._checkpoints.assign(0.0)
        for optimizer in self._optimizers:
            optimizer.agreement.assign(optimizer.agreement * [1.0, 1.0, 1.0, 0.0])

    def ask_to_stop(self) -> None:
        """Request a stop. The next exchange notifies all tasks."""
        if not self._stop_wanted:
            self._stop_wanted = True
            self._stop.assign(1.0)

    def ask_for_checkpoint(self) -> None:
        """Request a checkpoint. The next exchange notifies all tasks. Called only on the chief."""
        self.checkpoints_asked += 1
        self._checkpoints.assign_add(1.0)

    @property
    def agreement(self) -> Agreement:
        """The tasks' last agreement."""
        rows = [optimizer.agreement.numpy() for optimizer in self._optimizers]
        return Agreement(
            float(rows[-1][0]), any(row[1] > 0 for row in rows), float(rows[0][2]), int(max(row[3] for row in rows))
        )

    @property
    def agreed(self) -> list[tf.Variable]:
        """The variables that hold the tasks' last agreement."""
        return [optimizer.agreement for optimizer in self._optimizers]

    @property
    def steps(self) -> int:
        """The number of steps of this epoch so far in which any task had examples."""
        return int(self._step)

    @property
    def data_ended(self) -> bool:
        """Whether no task had examples in the last step."""
        return bool(self._ended)

    def begin_epoch(self, epoch: int, done: int = 0) -> None:
        """Start ``epoch``, in which ``done`` steps have already been taken."""
        self._epoch.assign(epoch)
        self._step.assign(done)
        if self._steps_of is not None:
            self._last.assign(self._steps_of(epoch))

    def begin(self, examples: tf.Tensor) -> None:
        """Prepare to trace a step, or to run it eagerly, with ``examples`` examples on this task."""
        self.examples = examples
        self.applied = False
        self.collectives = []
        if self.may_end:
            ended = self._reducer.sum_tensor(tf.cast(examples, tf.float32), "examples") == 0
            self._ended.assign(ended)
            self._step.assign_add(1 - tf.cast(ended, tf.int64))
        else:
            self._step.assign_add(1)

    def sum(self, values: tf.Tensor) -> tf.Tensor:
        """Sum a few numbers over the tasks, within a step. The numbers must not depend on the weights."""
        if self.lookups is not None and self.lookups.looks_again:
            return values
        name = f"values {len(self.collectives)}"
        self.note(lambda: self._reducer.sum_tensor(tf.zeros(values.shape, values.dtype), name))
        return tf.stop_gradient(self._reducer.sum_tensor(tf.stop_gradient(values), name))

    @property
    def agrees(self) -> bool:
        """Whether there are other tasks whose weights must equal the weights of this task."""
        return self._reducer.size > 1

    def settle(self, variables: list[Any], before: list[tf.Tensor | None], may_be_empty: bool) -> None:
        """On tasks without examples, assign to ``variables`` the values that the step has assigned on the other tasks.

        ``before``: see ``Outside``.
        """
        if not variables or not may_be_empty:
            return
        name = f"assigned {len(self.collectives)}"
        own = flattened(variables, before)
        self.note(lambda: take_mean(variables, before, self._reducer.sum_tensor(tf.zeros(own.shape, own.dtype), name)))
        self._reducer.sum_tensor(own, name)

    def note(self, without_examples: Callable[[], Any]) -> None:
        """Record the function that a task without examples calls instead of this step's next collective."""
        self.collectives.append((without_examples, tf.compat.v1.get_default_graph()))

    @property
    def is_due(self) -> tf.Tensor:
        """Whether to apply the gradients of this step together with those accumulated in earlier steps."""
        due = self._step % self._strategy.backward_passes_per_step == 0
        if self._steps_per_epoch is not None:
            due |= self._step == self._last
        return due | self._ended if self.may_end else due

    @property
    def wants_to_stop(self) -> tf.Tensor:
        """1 if this task requests a stop, otherwise 0."""
        return self._stop.read_value()

    @property
    def step_number(self) -> tf.Tensor:
        """The number of the step within its epoch, modulo a number that keeps its sum over the tasks exact in float32.
        It is equal on all tasks.
        """
        return tf.cast(self._step % _MOST_STEPS, tf.float32)

    @property
    def wants_checkpoints(self) -> tf.Tensor:
        """The number of checkpoints that this task has requested."""
        return self._checkpoints.read_value()

    @property
    def rate_factor(self) -> tf.Tensor | None:
        """The factor by which the learning rate is multiplied in this step; None: no scaling."""
        if self._scaling is None:
            return None
        return self._scaling.factor(self._epoch * (self._steps_per_epoch or 0) + self._step - 1)


class _SharedOptimizer:
    """An optimizer whose ``apply`` first reduces the gradients over the tasks."""

    def __init__(
        self, optimizer: Any, sync: GradientSync, reducer: Reducer, strategy: AllReduce, reduction: Reduction
    ) -> None:
        self._optimizer = optimizer
        self._apply = optimizer.apply
        self._apply_gradients = optimizer.apply_gradients
        self._is_applying = False
        self._sync = sync
        self._strategy = strategy
        self._reduction = reduction
        self._is_chief = reducer.rank == 0
        self._size = reducer.size
        self._op_factor = reducer.size if strategy.op == "sum" else 1
        self._accumulation = Accumulation() if strategy.backward_passes_per_step > 1 else None
        self._weighs = reducer.size > 1 or self._accumulation is not None
        """Whether there is more than one gradient to average."""
        rate = float(tf.convert_to_tensor(optimizer.learning_rate))
        self.agreement = tf.Variable([0.0, 0.0, rate, 0.0], dtype=tf.float64, trainable=False)
        """The fields of an Agreement, in order."""

    def apply(self, grads: Sequence[Gradient], trainable_variables: Any = None) -> None:
        """Reduce and apply gradients, in place of the optimizer's own ``apply``. A collective, except in steps that
        only accumulate gradients.
        """
        if self._is_applying:
            self._apply(grads, trainable_variables)
        else:
            self._share(grads, trainable_variables, self._optimizer.apply, self._apply)

    def apply_gradients(self, grads_and_vars: Any) -> Any:
        """Reduce and apply gradients, in place of an optimizer's own ``apply_gradients``, which needs the gradients of
        all tasks.
        """
        if self._is_applying:
            return self._apply_gradients(grads_and_vars)

        def through(entry: Callable[[Any], Any]) -> Callable[..., Any]:
            return lambda grads, variables: entry(list(zip(grads, variables, strict=True)))

        grads, variables = zip(*grads_and_vars, strict=True)
        self._share(grads, variables, through(self._optimizer.apply_gradients), through(self._apply_gradients))
        return self._optimizer._iterations

    def _share(
        self, grads: Sequence[Gradient], trainable_variables: Any, enter: Callable[..., Any], apply: Callable[..., Any]
    ) -> None:
        """Reduce and apply gradients. ``enter``: the function that tasks without examples call; ``apply``: the function
        that is called with the reduced gradients.
        """
        sync, optimizer, accumulation = self._sync, self._optimizer, self._accumulation
        variables = list(optimizer._trainable_variables if trainable_variables is None else trainable_variables)
        gradients = [self._prepared(g, v) for g, v in zip(grads, variables, strict=True)]
        sync.applied = True
        if sync.lookups is not None and sync.lookups.looks_again:
            return
        if sync.outside is not None:
            sync.outside.settle()
        sync.note(lambda: enter([nothing_like(g) for g in gradients], variables))
        examples = tf.cast(sync.examples, tf.float32)
        sums = [times(g, examples) for g in gradients] if self._weighs else gradients
        if accumulation is None:
            self._update(sums, examples, variables, apply)
            if sync.outside is not None:
                sync.outside.pass_over()
            return

        def update() -> tf.Tensor:
            self._update(*accumulation.total(sums), variables, apply)
            accumulation.clear()
            return tf.constant(0)

        accumulation.add(sums, examples)
        tf.cond(sync.is_due, update, lambda: tf.constant(0))
        if sync.outside is not None:
            sync.outside.pass_over()

    def _prepared(self, gradient: Any, variable: Any) -> Gradient:
        """Return the gradient with its variable's shape, as ``Rows`` if it is sparse and sparse gradients are
        gathered.
        """
        if gradient is None:
            return None
        if isinstance(gradient, Rows):  # from a task without examples
            return gradient
        if isinstance(gradient, tf.IndexedSlices) and self._strategy.sparse == "gather":
            gradient.values.set_shape([None, *variable.shape[1:]])
            keys = self._sync.lookups.keys(gradient.indices) if self._weighs and self._sync.lookups else None
            keys = None if keys is None else tf.cast(keys, gradient.indices.dtype)
            return Rows(gradient.values, gradient.indices, tuple(variable.shape), keys)
        gradient = tf.convert_to_tensor(gradient)
        gradient.set_shape(variable.shape)
        return gradient

    def _update(
        self, sums: Sequence[Gradient], examples: tf.Tensor, variables: Sequence[Any], apply_to: Callable[..., Any]
    ) -> None:
        """Apply the mean gradients over the examples of all tasks. A collective. ``sums``: the sums of this task's
        gradients over its ``examples``.
        """
        rate = self._optimizer.learning_rate  # a variable, or a schedule's value for this iteration
        chiefs_rate = tf.cast(rate, tf.float32) if self._is_chief else tf.constant(0.0)
        step = self._sync.step_number
        said = [examples, self._sync.wants_to_stop, chiefs_rate, self._sync.wants_checkpoints, step]
        sums, lanes = self._reduction(sums, tf.stack(said))
        tf.debugging.assert_equal(lanes[4], step * self._size, _OUT_OF_STEP)
        with tf.control_dependencies(_tensors([*sums, lanes]) if self._sync.whole else []):
            self._apply_sums(sums, lanes, rate, variables, apply_to)

    def _apply_sums(
        self,
        sums: Sequence[Gradient],
        lanes: tf.Tensor,
        rate: Any,
        variables: Sequence[Any],
        apply_to: Callable[..., Any],
    ) -> None:
        """Apply an update. ``sums`` and ``lanes`` are the results of its exchange."""
        if isinstance(rate, keras.Variable):
            rate.assign(lanes[2])
        factor = self._sync.rate_factor
        applied_rate = lanes[2] if factor is None else lanes[2] * factor
        now = tf.cast(tf.stack([lanes[0], lanes[1], applied_rate, lanes[3]]), tf.float64)
        self.agreement.assign(now + self.agreement * [1.0, 0.0, 0.0, 0.0])
        sums = [merged(g) if isinstance(g, Rows) else g for g in sums]
        gradients = list(sums)
        if self._weighs:
            divisor = tf.maximum(lanes[0], 1.0) / self._op_factor
            gradients = [divided(g, divisor, v.dtype) for g, v in zip(sums, variables, strict=True)]
        if self._strategy.clip_norm is not None:  # the gradients may be those of a scaled loss
            gradients = clip_by_global_norm(gradients, self._optimizer.scale_loss(self._strategy.clip_norm))

        def apply() -> tf.Tensor:
            self._is_applying = True
            try:
                with scaled(self._optimizer, factor):
                    apply_to(gradients, variables)
            finally:
                self._is_applying = False
            return tf.constant(0)

        if self._sync.may_end:  # the step after the last one must not change anything
            tf.cond(lanes[0] > 0, apply, lambda: tf.constant(0))
        else:
            apply()


def _tensors(gradients: Sequence[Gradient]) -> list[Any]:
    return [
        tensor
        for gradient in gradients
        for tensor in ([gradient.values, gradient.indices] if isinstance(gradient, Rows) else [gradient])
        if tensor is not None
    ]


def update_directly(optimizer: Any) -> None:
    """Make an optimizer call its ``update_step`` for each variable directly, bypassing Keras's code path through
    ``tf.distribute``.

    Without a distribution strategy, both paths end in the same call, but Keras's path accounts for a tenth of the
    duration of the first step. An optimizer with its own update step, such as Nadam, is not changed.
    """
    if type(optimizer)._backend_update_step is not keras.optimizers.Optimizer._backend_update_step:
        return

    def update(grads: list[Any], variables: list[Any], learning_rate: Any) -> None:
        for grad, variable in zip(grads, variables, strict=True):
            held = variable.value if isinstance(variable, keras.Variable) else variable
            optimizer.update_step(grad, held, learning_rate)

    optimizer._backend_update_step = update


def has_own_apply_gradients(optimizer: Any) -> bool:
    """Return whether the optimizer overrides Keras's ``apply_gradients``."""
    return type(optimizer).apply_gradients is not keras.optimizers.Optimizer.apply_gradients


def optimizers_of(model: Any) -> list[Any]:
    """Return the outermost Keras optimizers among the attributes of a model, ``model.optimizer`` first."""
    found: dict[int, Any] = {}
    for value in [model.optimizer, *vars(model).values()]:
        for leaf in _leaves(value):
            found.setdefault(id(leaf), leaf)
    inner = {id(o.inner_optimizer) for o in found.values() if hasattr(o, "inner_optimizer")}
    return [o for key, o in found.items() if key not in inner]


def inner_optimizers_of(model: Any) -> list[Any]:
    """Return the Keras optimizers among the attributes of a model's layers, such as those of compiled inner models."""
    own = optimizers_of(model)
    known = {id(each) for o in own for each in (o, getattr(o, "inner_optimizer", None))}
    found = {id(leaf): leaf for layer in model._flatten_layers() for leaf in _leaves(list(vars(layer).values()))}
    return [optimizer for key, optimizer in found.items() if key not in known]


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, keras.optimizers.Optimizer):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, dict):
        yield from _leaves(list(value.values()))
