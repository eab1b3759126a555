"""A training step that can be done again when it has failed in its middle, for another task was lost in it.

The update of the weights is the last of a step, and is done as a whole or not at all (``GradientSync.whole``). All else
that a step changes is small, and is copied before it begins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from keras.src.backend.common.global_state import get_global_attribute

from ...model.model_state import seed_states
from ..checkpoint_state import metric_variables


class KeptStep:
    """``step``, which takes the place of the model's ``train_step``, with what it changes beside the update."""

    def __init__(self, model: Any, step: Any) -> None:
        self._model = model
        self._step = step
        self._pairs: list[tuple[Any, tf.Variable]] | None = None
        self.is_under_way = False
        """Whether a step was begun and has not ended."""

    def prepare(self) -> None:
        """To be called before the first step, when the model and its metrics have all their variables."""
        if self._pairs is not None:
            return
        generator = get_global_attribute("global_seed_generator")
        kept = [
            *seed_states(self._model),
            *self._model.non_trainable_weights,
            *metric_variables(self._model),
            *([generator.state] if generator is not None else []),
        ]
        found = {id(variable): variable for variable in kept}.values()
        self._pairs = [(variable, tf.Variable(variable.numpy(), trainable=False)) for variable in found]

    def __call__(self, data: Any) -> Any:
        copies = [copy.assign(tf.convert_to_tensor(v), read_value=False) for v, copy in self._pairs or ()]
        with tf.control_dependencies([copy for copy in copies if copy is not None]):
            return self._step(data)

    @property
    def last_examples(self) -> Any:
        """Of this task's share of the last batch."""
        return self._step.last_examples

    def marking(self, run: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Keras's train function ``run``, noting that it is under way."""

        def train_function(iterator: Any) -> Any:
            self.is_under_way = True
            logs = run(iterator)
            self.is_under_way = False
            return logs

        return train_function

    def take_back(self) -> None:
        """If a step is under way, undo what it has done: it has failed before its update."""
        if self.is_under_way:
            for variable, copy in self._pairs or ():
                variable.assign(copy.numpy())
        self.is_under_way = False
