"""A job's model in a task, before it is trained."""

from __future__ import annotations

from typing import Any

import keras

from ....errors import InvalidInput
from ..model import keras_io
from ..model.model_state import seed_states
from .checks import Asked, Checks
from .job import FitJob


def configure_keras(config: dict[str, Any]) -> None:
    """Make Keras's settings those of the client."""
    if "floatx" in config:
        keras.config.set_floatx(config["floatx"])
    if "image_data_format" in config:
        keras.config.set_image_data_format(config["image_data_format"])
    if "epsilon" in config:
        keras.config.set_epsilon(config["epsilon"])
    if "dtype_policy" in config:
        keras.config.set_dtype_policy(config["dtype_policy"])


def job_model(job: FitJob, checks: Checks, asked: Asked) -> Any:
    """The compiled model, built or not. Raises InvalidInput for one that cannot be trained so."""
    if isinstance(job.model, keras_io.PackedModel):
        model = keras_io.unpack(job.model)
    else:
        model = job.model()
        if not isinstance(model, keras.Model) or not model.compiled:
            raise InvalidInput(f"The function passed as model returns a compiled keras.Model. Received: {model!r:.200}")
    checks.validate(asked, model)
    return model


def vary_random_numbers(model: Any, rank: int) -> None:
    """Dropout and the like draw other numbers on every task; the chief draws what one process would."""
    for state in seed_states(model):
        state.assign(seed_of_task(state.numpy(), rank))


def seed_of_task(state: Any, rank: int) -> list[int]:
    """The state of a random generator, a seed and a counter, as task ``rank`` has it; rank 0 has it as it is."""
    seed, counter = state
    return [(int(seed) + rank * 0x9E3779B1) % 2**32, int(counter)]
