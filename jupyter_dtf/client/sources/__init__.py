"""Forms of data that ``fit`` takes beside arrays and functions, each made to travel by a module of its own.

``SOURCES``: functions of ``(x, y, sample_weight, field)`` that return the ``BatchSource``, None for another form of
data, and raise InvalidInput for their own form where it cannot be used. The first that takes the data has it.
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
    streams.source_of,
]
