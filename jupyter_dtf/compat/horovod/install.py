"""Makes Horovod's own module names importable, for programs that should run unchanged."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_HERE = __name__.rpartition(".")[0]

_HOMES = {
    "horovod": "",
    "horovod.common": "",
    "horovod.common.elastic": ".elastic",
    "horovod.common.exceptions": ".exceptions",
    "horovod.common.process_sets": ".process_sets",
    "horovod.common.util": ".util",
    "horovod.keras": ".keras",
    "horovod.keras.callbacks": ".callbacks",
    "horovod.keras.elastic": ".elastic",
    "horovod.tensorflow": ".tensorflow",
    "horovod.tensorflow.compression": ".reduce_ops",
    "horovod.tensorflow.elastic": ".elastic",
    "horovod.tensorflow.functions": ".collectives",
    "horovod.tensorflow.keras": ".tensorflow.keras",
    "horovod.tensorflow.keras.callbacks": ".callbacks",
    "horovod.tensorflow.keras.elastic": ".elastic",
    "horovod.tensorflow.mpi_ops": ".tensorflow.mpi_ops",
    "horovod.tensorflow.sync_batch_norm": ".sync_batch_norm",
    "horovod.tensorflow.util": ".tensorflow.util",
}
"""Horovod's modules, and the modules of this package that replace them."""


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != "horovod":
            return None
        if fullname not in _HOMES:
            raise ModuleNotFoundError(
                f"jupyter_dtf replaces only Horovod's TensorFlow and Keras modules. It has no {fullname}", name=fullname
            )
        return ModuleSpec(fullname, _Loader(), is_package=True)


class _Loader(Loader):
    def exec_module(self, module: ModuleType) -> None:
        # The import returns the module that is now in sys.modules: a single module under two names.
        sys.modules[module.__name__] = importlib.import_module(_HERE + _HOMES[module.__name__])


def install_as_horovod() -> bool:
    """Make imports such as ``import horovod.tensorflow`` find this package if Horovod is not installed.

    No module is imported before the program imports it. Returns whether the names refer to this package. May be called
    repeatedly.
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return True
    installed = importlib.util.find_spec("horovod")
    if installed is not None and installed.origin is not None:  # a plain directory with that name has no origin
        return False
    sys.meta_path.insert(0, _Finder())  # before the file finder, which would load this package a second time
    return True
