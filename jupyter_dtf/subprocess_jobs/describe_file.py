"""A subprocess that describes the layers of a model in a file. It imports TensorFlow; the Jupyter server does not.

Code that a file contains or refers to is not run: models in ``.keras`` and ``.h5`` files are rebuilt from Keras's own
layers without allocating weights, and a SavedModel is read as protocol buffers. The process can neither write files nor
open sockets.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ..backend.task.describe.confined import confine
from ..backend.task.describe.layer_graph import describe
from ..backend.task.describe.model_files import Configuration, read_configuration
from ..backend.task.describe.rebuilt import compile_as_saved, give_optimizer, rebuilt
from ..backend.task.describe.saved_model_graph import describe_saved
from ..backend.task.describe.unallocated import unallocated
from ..backend.task.fit.pipeline.checks import refused_as_drawn
from ..errors import InvalidInput
from ..schema.graph import Layer, LayerGraph, Refusal
from ..schema.subprocess_job import answer
from ..schema.text import MAX_WHOLE

T = TypeVar("T")

_STYLE = re.compile(r"\x1b\[[0-9;]*m")

MAX_LOADED_BYTES = 4 << 30
"""The size, in bytes, of the largest model that can be measured. This process must be able to hold one copy."""


def describe_file(path: Path) -> LayerGraph:
    """Describe the layers of a ``.keras`` or ``.h5`` file or a SavedModel. Raises InvalidInput if it cannot be read."""
    is_saved = (path / "saved_model.pb").is_file()
    graph = _read(describe_saved if is_saved else _describe_keras, path)
    for layer in graph.layers:
        for field in _COUNTS:
            if not 0 <= getattr(layer, field) <= MAX_WHOLE:
                raise InvalidInput(
                    f"{path.name}: {field} of a layer must be from 0 to {MAX_WHOLE}, got {getattr(layer, field)} of "
                    f"{layer.id!r:.100}",
                    field="path",
                )
    return graph


def load(path: Path) -> Any:
    """Load the model in a ``.keras`` or ``.h5`` file, with newly initialized weights. Code in the file is not run.

    Raises InvalidInput if the file cannot be read or the model is too large for this process.
    """
    size = sum(layer.parameter_bytes + layer.slot_bytes for layer in describe_file(path).layers)
    if size > MAX_LOADED_BYTES:
        raise InvalidInput(
            f"A model to measure must have at most {MAX_LOADED_BYTES} bytes of parameters and slots, got {size}",
            field="path",
        )
    return _read(_load, path)


def _load(path: Path) -> Any:
    configuration = read_configuration(path)
    model = rebuilt(configuration, path.name)
    compile_as_saved(model, configuration, path.name)
    return model


def _describe_keras(path: Path) -> LayerGraph:
    configuration = read_configuration(path)
    with unallocated():
        model = rebuilt(configuration, path.name)
        give_optimizer(model, configuration, path.name)
        return msgspec.structs.replace(describe(model), refusals=_refused(model, configuration, path.name))


def _refused(model: Any, configuration: Configuration, what: str) -> list[Refusal]:
    """Return the reasons why a pipeline could not train the model as saved; empty if it was not compiled."""
    if configuration.compiled is None:
        return []
    optimizer = getattr(model, "optimizer", None)
    try:
        compile_as_saved(model, configuration, what)
    except Exception:  # custom losses and metrics, which only a notebook has; the model is still described
        return []
    if optimizer is not None:
        model.optimizer = optimizer  # built for the model's variables
    return refused_as_drawn(model)


_COUNTS = [field for field, hint in Layer.__annotations__.items() if hint == "int"]


def _read(reading: Callable[[Path], T], path: Path) -> T:
    try:
        return reading(path)
    except InvalidInput:
        raise
    except MemoryError:
        raise InvalidInput(
            f"{path.name} cannot be read: it would need more memory than is available", field="path"
        ) from None
    except RecursionError:
        raise InvalidInput(f"{path.name} cannot be read: it is nested too deeply", field="path") from None
    except Exception as error:  # a damaged file can raise anything
        said = " ".join(_STYLE.sub("", str(error)).split())  # Keras uses bold text for terminals
        raise InvalidInput(f"{path.name} cannot be read. {type(error).__name__}: {said:.500}", field="path") from None


def _work(argument: bytes) -> LayerGraph:
    confine()
    return describe_file(Path(json.loads(argument)))


if __name__ == "__main__":
    sys.exit(answer(_work))
