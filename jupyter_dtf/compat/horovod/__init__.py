"""Horovod's API for the tasks of a run: ``import jupyter_dtf.compat.horovod as hvd``.

This module contains the names of ``horovod.tensorflow`` (which are also in the submodule ``tensorflow``), and the
callbacks and ``load_model`` of ``horovod.tensorflow.keras``. Everything is loaded on first use, so importing this
module does not import TensorFlow. See the table in docs/horovod.md.
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
"""The version of Horovod whose API this package provides."""

_OF_KERAS = ("PartialDistributedOptimizer", "load_model")


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if find_spec(f"{__name__}.{name}") is not None:
        # `from . import name` also calls this function first. It must not load the API, which imports these modules.
        return import_module(f".{name}", __name__)
    surface = import_module(".tensorflow.keras" if name in _OF_KERAS else ".tensorflow", __name__)
    try:
        value = getattr(surface, name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    globals()[name] = value
    return value
