"""Horovod's functions on the tasks of a run: ``import jupyter_dtf.compat.horovod as hvd``.

It has what ``horovod.tensorflow`` has (the module ``tensorflow`` beside this one is that alone), and the callbacks and
``load_model`` of ``horovod.tensorflow.keras``. Everything is loaded when it is first asked for: importing this imports
no TensorFlow. docs/horovod.md has the table.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from .install import install_as_horovod

if TYPE_CHECKING:
    from . import callbacks, elastic, keras, tensorflow
    from .tensorflow import *  # noqa: F403
    from .tensorflow.keras import PartialDistributedOptimizer, load_model

__all__ = [
    "PartialDistributedOptimizer",
    "callbacks",
    "elastic",
    "install_as_horovod",
    "keras",
    "load_model",
    "tensorflow",
]
__version__ = "0.28.1"
"""The Horovod whose functions these are."""

_OF_KERAS = ("PartialDistributedOptimizer", "load_model")


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if find_spec(f"{__name__}.{name}") is not None:
        # Also what `from . import name` asks for first: it must not load the surface, which imports these modules.
        return import_module(f".{name}", __name__)
    surface = import_module(".tensorflow.keras" if name in _OF_KERAS else ".tensorflow", __name__)
    try:
        value = getattr(surface, name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    globals()[name] = value
    return value
