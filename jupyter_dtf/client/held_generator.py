"""A generator read to its end, in the process that has it, so that every task can take batches of it in turn."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from ..backend.task.answers.held_batches import HeldBatches
from ..errors import InvalidInput
from .fit_data import as_arrays, refuse_beside


def is_read_once(x: Any) -> bool:
    """Whether ``x`` is a generator or another iterator."""
    return isinstance(x, Iterator) and not hasattr(x, "__array__")


def held_batches(x: Iterator[Any], y: Any, sample_weight: Any, steps: int | None) -> HeldBatches:
    """The batches of a generator or iterator, as many as ``steps`` says.

    Raises InvalidInput for one without batches, and for a batch that is not like the first, which it names.
    """
    refuse_beside("the batches of the generator", y, sample_weight)
    held: list[Any] = []
    for number, batch in enumerate(islice(x, steps)):
        held.append(as_arrays(batch, f"batch {number} of x"))
        if _like(held[-1]) != _like(held[0]):
            raise InvalidInput(
                "The batches of a generator must be alike in structure, types and numbers of dimensions, got batch "
                f"{number} of {_like(held[-1])} after {_like(held[0])}",
                field="x",
            )
    if not held:
        raise InvalidInput("`x` must give at least one batch, got a generator that has ended", field="x")
    return HeldBatches(held)


def _like(batch: Any) -> Any:
    if isinstance(batch, dict):
        return {key: _like(value) for key, value in batch.items()}
    if isinstance(batch, tuple):
        return tuple(_like(value) for value in batch)
    return None if batch is None else f"{batch.ndim} dimensions of {batch.dtype}"
