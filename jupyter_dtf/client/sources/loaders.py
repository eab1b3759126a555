"""A ``keras.utils.PyDataset``, made to travel."""

from __future__ import annotations

import sys
from typing import Any

from ...backend.task.fit.sources.base import BatchSource
from ...errors import InvalidInput
from .pickling import pickled


def py_dataset(x: Any, y: Any, sample_weight: Any, field: str) -> BatchSource | None:
    """The source of a PyDataset. Raises InvalidInput where it cannot travel."""
    keras = sys.modules.get("keras")  # nobody has one without
    if keras is None or not isinstance(x, keras.utils.PyDataset):
        return None
    from ...backend.task.fit.sources.py_dataset import PyDatasetSource

    _refuse_beside("a PyDataset's batches", y, sample_weight, field)
    length = x.num_batches
    if length is not None and int(length) < 1:
        raise InvalidInput(f"A PyDataset must have a batch. Received: num_batches={length}", field=field)
    return PyDatasetSource(pickled(x, "A PyDataset", field), -1 if length is None else int(length))


def data_loader(x: Any, y: Any, sample_weight: Any, field: str) -> BatchSource | None:
    """Raises InvalidInput for a PyTorch DataLoader, which is not taken."""
    del y, sample_weight
    kinds = {f"{kind.__module__}.{kind.__name__}" for kind in type(x).__mro__}
    if kinds & {"torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader"}:
        raise InvalidInput(
            "A PyTorch DataLoader is not taken: pass a keras.utils.PyDataset whose __getitem__(i) collates the "
            "examples of batch i of its dataset, and which travels to the tasks, or a generator, which this process "
            "reads: (tuple(batch) for _ in range(epochs) for batch in loader), with steps_per_epoch=len(loader). "
            f"Received: {x!r:.200}",
            field=field,
        )
    return None


def _refuse_beside(what: str, y: Any, sample_weight: Any, field: str) -> None:
    for name, value in (("y", y), ("sample_weight", sample_weight)):
        if value is not None:
            raise InvalidInput(f"{name} must be in {what}, not beside them. Received both", field=field)
