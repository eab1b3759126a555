"""Contains a training step that can be repeated if it fails halfway because another task is lost.

The weight update is the last part of a step, and is atomic (``GradientSync.whole``). Everything else that a step
changes is small, and is copied before the step begins. If a call to Keras's train function executes several steps, it
may fail after it has applied some updates. For such a call, the variables that updates change are copied as well, and
the whole call is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

# Keras 3.15: the public accessor of the global seed generator creates a generator if there is none.
from keras.src.backend.common.global_state import get_global_attribute

from ...model.metrics_of import metric_variables
from ...model.model_state import seed_states


class KeptStep:
    """Wraps ``step``, the replacement for the model's ``train_step``, and copies the variables that the step changes
    outside of the update.

    ``updated``: a function that returns the variables that updates change. These are also copied if a call to Keras's
    train function executes several steps.
    """

    def __init__(self, model: Any, step: Any, updated: Callable[[], Sequence[Any]]) -> None:
        self._model = model
        self._step = step
        self._updated = updated
        self._is_one = model.steps_per_execution == 1
        self._copy: Callable[[], Any] = lambda: None
        self._pairs: list[tuple[Any, tf.Variable]] | None = None
        self.is_under_way = False
        """Whether a call to Keras's train function has begun but not completed. It remains true if the call raises an
        exception.
        """

    def prepare(self) -> None:
        """Create the copies. Must be called before the first step, when the model and its metrics have created all
        their variables.
        """
        if self._pairs is not None:
            return
        generator = get_global_attribute("global_seed_generator")
        kept = [
            *seed_states(self._model),
            *self._model.non_trainable_weights,
            *metric_variables(self._model),
            *([generator.state] if generator is not None else []),
            *(() if self._is_one else self._updated()),
        ]
        found = {id(variable): variable for variable in kept}.values()
        self._pairs = [(variable, tf.Variable(variable.numpy(), trainable=False)) for variable in found]

        if not self._is_one:

            @tf.function(autograph=False)
            def copy() -> None:
                self._copy_all()

            self._copy = copy

    def _copy_all(self) -> list[Any]:
        copies = [copy.assign(tf.convert_to_tensor(v), read_value=False) for v, copy in self._pairs or ()]
        return [copy for copy in copies if copy is not None]

    def __call__(self, data: Any) -> Any:
        with tf.control_dependencies(self._copy_all() if self._is_one else []):
            return self._step(data)

    @property
    def derived(self) -> Any:
        """The logs that the wrapped step computes from metrics."""
        return self._step.derived

    @property
    def last_examples(self) -> Any:
        """The number of examples in this task's share of the last batch."""
        return self._step.last_examples

    def marking(self, run: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Wrap Keras's train function ``run`` so that ``is_under_way`` is True from the beginning of a call until the
        call completes, and so that the variables are copied before a call that executes several steps.
        """

        def train_function(iterator: Any) -> Any:
            self._copy()
            self.is_under_way = True
            logs = run(iterator)
            self.is_under_way = False
            return logs

        return train_function

    def take_back(self) -> None:
        """Undo a step that has not completed. The step must have failed before its last update."""
        if self.is_under_way:
            for variable, copy in self._pairs or ():
                variable.assign(copy.numpy())
        self.is_under_way = False
