"""The trained model of a trial, kept in its run's directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...errors import DtfError
from ...schema import payload, private_files
from ...schema.disk_space import refusal

FILE = "model.payload"
"""The file in the run's directory with the model that ``fit`` trained last, packed by ``keras_io``."""
OWN = "model.keras"
"""The file in the run's checkpoint directory to which the program may have saved a model itself. It takes precedence.
"""


def keep_model(ctx: Any, model: Any) -> None:
    """Save the model. Errors are reported as a note and do not fail the trial."""
    from .model import keras_io

    path = Path(ctx.run_dir) / FILE
    try:
        private_files.write_file(path, payload.pack(keras_io.pack(model, compiled=False)))
    except DtfError as error:
        ctx.note("warning", "The model was not saved", str(error))
    except OSError as error:
        ctx.note("warning", "The model was not saved", refusal(path, "The model", error))


def find_model(run_dir: Path) -> Path | None:
    """Return the path of a trial's model, or None if no such file is visible on this machine."""
    places = (run_dir / "checkpoints" / OWN, run_dir / FILE)
    return next((path for path in places if path.is_file()), None)


def own_file(model: Path) -> Path:
    """Return the path at which ``keep_model`` saves a trial's model, given the path from ``find_model``."""
    return model if model.name == FILE else model.parent.parent / FILE


def read_model(path: Path) -> Any:
    """Load the Keras model, without compiling it. Raises whatever Keras raises if it cannot be loaded."""
    import keras

    from .model import keras_io

    if path.name == OWN:
        return keras.models.load_model(path, compile=False)
    packed = payload.load(path)
    model = keras_io.unpack(packed)
    keras_io.restore(model, packed)
    return model
