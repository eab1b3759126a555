"""Prepares a job's model for training in a task."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from ....errors import InvalidInput
from ..model import keras_io
from ..model.model_state import seed_states
from .checks import Asked, Checks
from .job import FitJob


def configure_keras(config: dict[str, Any]) -> None:
    """Apply the client's Keras and TensorFlow settings. Limits on epochs and steps are removed, because the client has
    already applied them to the job.
    """
    for name in ("set_max_epochs", "set_max_steps_per_epoch"):
        getattr(keras.config, name, lambda limit: None)(None)
    if (flash := config.get("flash_attention")) is not None:
        (keras.config.enable_flash_attention if flash else keras.config.disable_flash_attention)()
    if "floatx" in config:
        keras.config.set_floatx(config["floatx"])
    if "image_data_format" in config:
        keras.config.set_image_data_format(config["image_data_format"])
    if "epsilon" in config:
        keras.config.set_epsilon(config["epsilon"])
    if "dtype_policy" in config:
        keras.config.set_dtype_policy(config["dtype_policy"])
    if config.get("op_determinism"):
        tf.config.experimental.enable_op_determinism()


def job_model(job: FitJob, checks: Checks, asked: Asked) -> Any:
    """Return the compiled model, which may not be built yet. Raises InvalidInput if the model cannot be trained."""
    if isinstance(job.model, keras_io.PackedModel):
        model = keras_io.unpack(job.model)
    else:
        model = job.model()
        if not isinstance(model, keras.Model) or not model.compiled:
            raise InvalidInput(f"`model`: a function must return a compiled keras.Model, got {model!r:.200}")
    checks.validate(asked, model)
    return model


def restore_model(model: Any, job: FitJob, ctx: Any) -> None:
    """Give a built model the state of the caller's model, if the job contains one. The chief warns of what differs.

    Raises InvalidInput if the model differs so much that its state does not fit.
    """
    if not isinstance(job.model, keras_io.PackedModel):
        return
    names = keras_io.restore(model, job.model)
    if names and ctx.is_chief:
        ctx.note(
            "warning",
            "The model in the tasks differs from yours",
            f"These attributes of its layers have other values there: {', '.join(names)}. They were set after the "
            "layers were created, and are not in get_config(). Pass a function that returns the compiled model, or add "
            "them to get_config() and __init__",
        )


def vary_random_numbers(model: Any, rank: int) -> None:
    """Make each task draw different random numbers, for example for dropout. The chief draws the same numbers as one
    process.
    """
    for state in seed_states(model):
        state.assign(seed_of_task(state.numpy(), rank))


def seed_of_task(state: Any, rank: int) -> list[int]:
    """Return the state (seed, counter) of a random generator on task ``rank``. Rank 0 keeps ``state``."""
    seed, counter = state
    return [(int(seed) + rank * 0x9E3779B1) % 2**32, int(counter)]
