"""Prepares a ``keras.utils.PyDataset`` for sending."""

from __future__ import annotations

import sys
from typing import Any

from ...backend.task.fit.sources.base import BatchSource
from ...errors import InvalidInput
from .pickling import pickled


def py_dataset(x: Any, y: Any, sample_weight: Any, field: str) -> BatchSource | None:
    """The source for a PyDataset. Raises InvalidInput if it cannot be sent."""
    keras = sys.modules.get("keras")  # without it, there can be no PyDataset
    if keras is None or not isinstance(x, keras.utils.PyDataset):
        return None
    from ...backend.task.fit.sources.py_dataset import PyDatasetSource

    _refuse_beside("a PyDataset's batches", y, sample_weight, field)
    length = x.num_batches
    if length is not None and int(length) < 1:
        raise InvalidInput(f"A PyDataset must have at least one batch, got num_batches={length}", field=field)
    return PyDatasetSource(pickled(x, "A PyDataset", field), -1 if length is None else int(length))


def data_loader(x: Any, y: Any, sample_weight: Any, field: str) -> BatchSource | None:
    """Raises InvalidInput for a PyTorch DataLoader, which is not supported."""
    del y, sample_weight
    kinds = {f"{kind.__module__}.{kind.__name__}" for kind in type(x).__mro__}
    if kinds & {"torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader"}:
        raise InvalidInput(
            "PyTorch DataLoaders are not supported. Pass a keras.utils.PyDataset whose __getitem__(i) collates the "
            "examples of batch i and which the tasks read themselves, or a generator, which this process reads: "
            "(tuple(batch) for _ in range(epochs) for batch in loader), with steps_per_epoch=len(loader); got "
            f"{x!r:.200}",
            field=field,
        )
    return None


def _refuse_beside(what: str, y: Any, sample_weight: Any, field: str) -> None:
    for name, value in (("y", y), ("sample_weight", sample_weight)):
        if value is not None:
            raise InvalidInput(f"`{name}` must be contained in {what}, got both", field=field)
