"""The model of a trial: what its program has trained, kept in its run's directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...errors import DtfError
from ...schema import payload, private
from ...schema.room import refusal

FILE = "model.payload"
"""In the run's directory: the model that ``fit`` has trained last, as ``keras_io`` packs it."""
OWN = "model.keras"
"""In the directory of the run's checkpoints: what the program has saved there itself goes before that."""


def keep_model(ctx: Any, model: Any) -> None:
    """Write down what is needed to make the model again. What goes wrong is told, and is no failure of the trial."""
    from .model import keras_io

    path = Path(ctx.run_dir) / FILE
    try:
        private.write_file(path, payload.pack(keras_io.pack(model, compiled=False)))
    except DtfError as error:
        ctx.note("warning", "The model is not kept", str(error))
    except OSError as error:
        ctx.note("warning", "The model is not kept", refusal(path, "The model", error))


def find_model(run_dir: Path) -> Path | None:
    """Where the model of a trial is, if it is seen from here."""
    places = (run_dir / "checkpoints" / OWN, run_dir / FILE)
    return next((path for path in places if path.is_file()), None)


def own_file(model: Path) -> Path:
    """What ``keep_model`` has written, if it has, of the trial of which ``find_model`` has found this one."""
    return model if model.name == FILE else model.parent.parent / FILE


def read_model(path: Path) -> Any:
    """The Keras model, not compiled. Raises what Keras raises of one that it cannot load."""
    import keras

    from .model import keras_io

    if path.name == OWN:
        return keras.models.load_model(path, compile=False)
    packed = payload.load(path)
    model = keras_io.unpack(packed)
    keras_io.restore(model, packed)
    return model
