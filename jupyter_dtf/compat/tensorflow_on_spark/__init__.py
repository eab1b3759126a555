"""TensorFlowOnSpark's modules on Dask: ``from jupyter_dtf.compat import TFCluster, TFNode, dfutil, pipeline``.

Dask bags replace RDDs, Dask dataframes replace Spark's dataframes, and ``SparkContext`` creates both. Each module is
loaded on first use, so importing this package imports neither TensorFlow nor Dask. See the table in docs/data.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import dfutil, pipeline
    from . import tf_cluster as TFCluster
    from . import tf_compat as compat
    from . import tf_manager as TFManager
    from . import tf_node as TFNode
    from . import tf_parallel as TFParallel
    from .spark_context import SparkConf, SparkContext

__all__ = [
    "SparkConf",
    "SparkContext",
    "TFCluster",
    "TFManager",
    "TFNode",
    "TFParallel",
    "compat",
    "dfutil",
    "pipeline",
]
__version__ = "2.2.5"
"""The version of TensorFlowOnSpark whose API this package provides."""

_HOMES = {
    "TFCluster": "tf_cluster",
    "TFManager": "tf_manager",
    "TFNode": "tf_node",
    "TFParallel": "tf_parallel",
    "compat": "tf_compat",
    "dfutil": "dfutil",
    "pipeline": "pipeline",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in ("SparkConf", "SparkContext"):
        from . import spark_context

        return getattr(spark_context, name)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f".{_HOMES[name]}", __name__)
