"""Prepares the data that ``fit`` accepts, other than arrays and functions, for sending. Each kind has a module.

``SOURCES``: functions of ``(x, y, sample_weight, field)``, each for one kind of data. A function returns a
``BatchSource``, or None for data of another kind, and raises InvalidInput for data of its own kind that cannot be used.
The functions are tried in order until one returns a source.
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
