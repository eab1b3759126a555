"""Prepares a ``keras.utils.PyDataset`` or a PyTorch ``DataLoader`` for sending."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

from ...backend.task.fit.sources.base import BatchSource
from ...errors import InvalidInput
from ..pickling import pickled
from .beside import refuse_beside


def py_dataset(x: Any, y: Any, sample_weight: Any, field: str) -> BatchSource | None:
    """Return the source for a PyDataset; None for other data. Raises InvalidInput if it cannot be sent."""
    keras = sys.modules.get("keras")  # without it, there can be no PyDataset
    if keras is None or not isinstance(x, keras.utils.PyDataset):
        return None
    from ...backend.task.fit.sources.py_dataset import PyDatasetSource

    refuse_beside("a PyDataset's batches", y, sample_weight)
    length = x.num_batches
    if length is not None and int(length) < 1:
        raise InvalidInput(f"A PyDataset must have at least one batch, got num_batches={length}", field=field)
    return PyDatasetSource(pickled(x, "A PyDataset", field), -1 if length is None else int(length))


def data_loader(x: Any, y: Any, sample_weight: Any, field: str) -> BatchSource | None:
    """Return the source for a PyTorch ``DataLoader``; None for other data.

    The order of an epoch is requested from the loader's sampler immediately. A loader without such an order, because
    its dataset is an ``IterableDataset`` or its sampler never ends, is read in this process. Raises InvalidInput if the
    loader can neither be sent nor be read here.
    """
    kinds = {f"{kind.__module__}.{kind.__name__}" for kind in type(x).__mro__}
    if not kinds & {"torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader"}:
        return None
    refuse_beside("a DataLoader's batches", y, sample_weight)
    from ...backend.task.fit.sources.data_loader import DataLoaderSource
    from .fed_loaders import fed_loader

    if why := _not_by_number(x):
        return fed_loader(x, field, why)

    collates_lists = x.batch_sampler is not None
    sampler = x.batch_sampler if collates_lists else x.sampler
    order = list(sampler)
    if not order:
        raise InvalidInput("A DataLoader must have at least one batch, got one whose sampler yields none", field=field)
    workers = int(x.num_workers)
    parts = SimpleNamespace(
        dataset=x.dataset,
        sampler=sampler,
        collate=x.collate_fn,
        order=order,
        collates_lists=collates_lists,
        workers=max(1, workers),
        use_multiprocessing=workers > 0,
        max_queue_size=max(1, workers) * (x.prefetch_factor or 2),
    )
    return DataLoaderSource(pickled(parts, "A DataLoader", field), len(order))


def _not_by_number(loader: Any) -> str:
    """Return why the batches of a loader cannot be requested by number; empty if they can."""
    if any(kind.__name__ == "IterableDataset" for kind in type(loader.dataset).__mro__):
        return "its dataset is an IterableDataset, whose examples have no numbers"
    try:
        len(loader)
    except TypeError:
        return "its sampler does not report its number of batches"
    return ""
