"""Prepares for sending all data that ``fit`` accepts other than arrays and functions. Each kind of data has a module.

``SOURCES``: functions of ``(x, y, sample_weight, field)`` that return a ``BatchSource``, or None for another form of
data. They raise InvalidInput for data of their own form that cannot be used. The first that accepts the data is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...backend.task.fit.sources.base import BatchSource
from . import dask_collections, datasets, loaders, streams

SOURCES: list[Callable[[Any, Any, Any, str], BatchSource | None]] = [
    dask_collections.source_of,
    datasets.dataset_of,
    loaders.py_dataset,
    loaders.data_loader,
    streams.source_of,
]
