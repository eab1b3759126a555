"""An errand: the layers of a model in a file. It imports TensorFlow, which the Jupyter server does not."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import keras

from ...errors import InvalidInput
from ...schema.errand import answer
from ...schema.graph import LayerGraph
from .describe import describe

SUFFIXES = (".keras", ".h5")


def describe_file(path: Path) -> LayerGraph:
    """The layers of a ``.keras`` or ``.h5`` file. Raises InvalidInput for what is none, or cannot be read."""
    return describe(load(path))


def load(path: Path) -> Any:
    """The model of a file; nothing in it is run. Raises InvalidInput."""
    if path.suffix not in SUFFIXES or not path.is_file():
        raise InvalidInput(
            f"A model is read from a file that ends with {' or '.join(SUFFIXES)}. Received: {path.name!r}", field="path"
        )
    try:
        return keras.models.load_model(path)
    except Exception as error:  # whatever a damaged file, or one with classes of its own, makes Keras raise
        lines = str(error).strip().splitlines()
        what = f"{type(error).__name__}: {lines[0] if lines else ''}"
        raise InvalidInput(f"Keras cannot read {path.name}. {what:.500}", field="path") from None


if __name__ == "__main__":
    sys.exit(answer(lambda argument: describe_file(Path(json.loads(argument)))))
