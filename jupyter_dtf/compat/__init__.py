"""The APIs of other libraries, for programs that were written for these libraries.

Each API is a subpackage with an entry point in the group ``jupyter_dtf.compat``, which makes the names of the library
importable.

For TensorFlowOnSpark, use ``from jupyter_dtf.compat import TFCluster, TFNode, TFParallel, dfutil, pipeline,
SparkContext``; for Horovod, use ``import jupyter_dtf.compat.horovod as hvd``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .tensorflow_on_spark import (
        SparkConf,
        SparkContext,
        TFCluster,
        TFManager,
        TFNode,
        TFParallel,
        dfutil,
        pipeline,
    )

_ON_SPARK = (
    "SparkConf",
    "SparkContext",
    "TFCluster",
    "TFManager",
    "TFNode",
    "TFParallel",
    "dfutil",
    "pipeline",
)
__all__ = [
    "SparkConf",
    "SparkContext",
    "TFCluster",
    "TFManager",
    "TFNode",
    "TFParallel",
    "dfutil",
    "pipeline",
]


def __getattr__(name: str) -> Any:
    if name not in _ON_SPARK:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import tensorflow_on_spark

    return getattr(tensorflow_on_spark, name)
