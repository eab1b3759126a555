"""An errand: the layers of a model in a file. It imports TensorFlow, which the Jupyter server does not."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import keras

from ...errors import InvalidInput
from ...schema.errand import answer
from ...schema.graph import LayerGraph
from .describe import describe
from .describe_saved import describe_saved

T = TypeVar("T")

SUFFIXES = (".keras", ".h5")


def describe_file(path: Path) -> LayerGraph:
    """The layers of a ``.keras`` or ``.h5`` file or a SavedModel. Raises InvalidInput for what cannot be read."""
    if (path / "saved_model.pb").is_file():
        return _read(describe_saved, path)
    return describe(load(path))


def load(path: Path) -> Any:
    """The model of a ``.keras`` or ``.h5`` file; code in it is not run. Raises InvalidInput."""
    if path.suffix not in SUFFIXES or not path.is_file():
        raise InvalidInput(
            f"A model is read from a SavedModel, or a file that ends with {' or '.join(SUFFIXES)}. Received: "
            f"{path.name!r}",
            field="path",
        )
    return _read(keras.models.load_model, path)


def _read(reading: Callable[[Path], T], path: Path) -> T:
    try:
        return reading(path)
    except InvalidInput:
        raise
    except Exception as error:  # whatever a damaged file, or one with classes of its own, makes them raise
        lines = str(error).strip().splitlines()
        what = f"{type(error).__name__}: {lines[0] if lines else ''}"
        raise InvalidInput(f"{path.name} cannot be read. {what:.500}", field="path") from None


if __name__ == "__main__":
    sys.exit(answer(lambda argument: describe_file(Path(json.loads(argument)))))
