"""Reads a generator to its end in the process that owns it, so that the tasks can take its batches in turn."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from ..backend.task.answers.held_batches import HeldBatches
from ..errors import InvalidInput
from .fit_data import as_arrays
from .sources.beside import refuse_beside


def is_read_once(x: Any) -> bool:
    """Return whether ``x`` is a generator or another iterator."""
    return isinstance(x, Iterator) and not hasattr(x, "__array__")


def held_batches(x: Iterator[Any], y: Any, sample_weight: Any, steps: int | None) -> HeldBatches:
    """Return the batches of a generator or iterator, at most ``steps`` of them.

    Raises InvalidInput if there are none, or if the structure of a batch differs from that of the first.
    """
    refuse_beside("the batches of the generator", y, sample_weight)
    held: list[Any] = []
    for number, batch in enumerate(islice(x, steps)):
        held.append(as_arrays(batch, f"batch {number} of x"))
        if _like(held[-1]) != _like(held[0]):
            raise InvalidInput(
                "All batches of a generator must have the same structure, dtypes and ranks, got batch "
                f"{number} with {_like(held[-1])} after batches with {_like(held[0])}",
                field="x",
            )
    if not held:
        raise InvalidInput("`x` must yield at least one batch, got an exhausted generator", field="x")
    return HeldBatches(held)


def _like(batch: Any) -> Any:
    if isinstance(batch, dict):
        return {key: _like(value) for key, value in batch.items()}
    if isinstance(batch, tuple):
        return tuple(_like(value) for value in batch)
    return None if batch is None else f"{batch.ndim} dimensions of {batch.dtype}"
