"""Makes TensorFlowOnSpark's own module names importable, for programs that should run unchanged."""

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
    "tensorflowonspark": "",
    "tensorflowonspark.TFCluster": ".tf_cluster",
    "tensorflowonspark.TFManager": ".tf_manager",
    "tensorflowonspark.TFNode": ".tf_node",
    "tensorflowonspark.TFParallel": ".tf_parallel",
    "tensorflowonspark.compat": ".tf_compat",
    "tensorflowonspark.dfutil": ".dfutil",
    "tensorflowonspark.pipeline": ".pipeline",
}
"""TensorFlowOnSpark's modules, and the modules of this package that replace them."""


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != "tensorflowonspark":
            return None
        if fullname not in _HOMES:
            raise ModuleNotFoundError(
                f"jupyter_dtf replaces the modules of TensorFlowOnSpark that programs use. It has no {fullname}",
                name=fullname,
            )
        return ModuleSpec(fullname, _Loader(), is_package=fullname == "tensorflowonspark")


class _Loader(Loader):
    def exec_module(self, module: ModuleType) -> None:
        # The import returns the module that is now in sys.modules: a single module under two names.
        sys.modules[module.__name__] = importlib.import_module(_HERE + _HOMES[module.__name__])


def install_as_tensorflowonspark() -> bool:
    """Make imports such as ``import tensorflowonspark`` find this package if TensorFlowOnSpark is not installed.

    No module is imported before the program imports it. Returns whether the names refer to this package. May be called
    repeatedly.
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return True
    installed = importlib.util.find_spec("tensorflowonspark")
    if installed is not None and installed.origin is not None:  # a plain directory with that name has no origin
        return False
    sys.meta_path.insert(0, _Finder())  # before the file finder, which would load this package a second time
    return True
