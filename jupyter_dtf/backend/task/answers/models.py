"""The model that a task uses to predict or evaluate, rebuilt with the weights that were sent with it."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from ....errors import InvalidInput
from ..collectives.primitive import Reducer
from ..fit.models import configure_keras
from ..model import keras_io
from ..model.model_state import give_more, give_own, set_trainable, states_of
from .job import AnswerJob


def answering_model(job: AnswerJob, element_spec: Any, reducer: Reducer) -> Any:
    """Return the model, built for batches that match ``element_spec``. If a function creates the model, every task
    uses the first task's state.

    Every task must call this. Raises InvalidInput if the model cannot be rebuilt.
    """
    configure_keras(job.keras_config)
    packed = job.model
    if isinstance(packed, keras_io.PackedModel):
        model = keras_io.unpack(packed)
        for name, value in job.how.items():
            setattr(model, name, value)
        _build(model, element_spec, job.evaluates, len(packed.weights))
        give_own(model, packed.more)
        if packed.weights:
            keras_io.assign(model.weights, packed.weights, "weights")
            set_trainable(model, packed.more)
            give_more(model, packed.more)
        return model
    model = packed()
    if not isinstance(model, keras.Model) or (job.evaluates and not model.compiled):
        kind = "compiled keras.Model" if job.evaluates else "keras.Model"
        raise InvalidInput(f"The function passed as `model` must return a {kind}, got {model!r:.200}", field="model")
    _build(model, element_spec, job.evaluates, len(model.weights))
    states = states_of(model)
    for state, value in zip(states, reducer.broadcast([state.numpy() for state in states]), strict=True):
        state.assign(value)
    return model


def _build(model: Any, element_spec: Any, evaluates: bool, weights: int) -> None:
    spec = keras_io.batch_spec(element_spec)
    if evaluates:
        model._symbolic_build(data_batch=spec)
    elif not model.built or len(model.weights) != weights:
        x = keras.utils.unpack_x_y_sample_weight(spec)[0]
        model(keras.tree.map_structure(lambda leaf: keras.KerasTensor(leaf.shape, leaf.dtype), x))


class Watched:
    """Detects changes to variables, which prediction must not make, except to trainable ones and those in ``but``."""

    def __init__(self, model: Any, but: Any = ()) -> None:
        left = {id(variable) for variable in but}
        # Trainable variables are changed only by training, and may be large.
        kept = {id(variable) for variable in model.trainable_variables}
        self._states = {
            number: state
            for number, state in enumerate(states_of(model))
            if id(state) not in left and id(state) not in kept
        }
        self._before = {number: state.numpy() for number, state in self._states.items()}

    def changed(self) -> dict[int, Any]:
        """Return the values that have changed, keyed by their index in ``states_of``."""
        found = {}
        for number, state in self._states.items():
            value = state.numpy()
            if not np.array_equal(value, self._before[number], equal_nan=value.dtype.kind == "f"):
                found[number] = value
        return found

    def put_back(self) -> None:
        """Restore the original values."""
        for number, state in self._states.items():
            state.assign(self._before[number])
