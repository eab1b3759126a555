"""Checks whether data is batched, by comparing its shapes with those of a model's inputs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....errors import InvalidInput

Shape = Sequence[int | None]


def check_batched(model: Any, batch: Any, what: str, field: str, *, divided: bool = False) -> None:
    """Raise InvalidInput if data would pass single examples to a model that expects batches.

    Only models of Keras's own classes with a single input are checked, unless Keras itself adds a dimension to that
    input.

    Args:
        model: The model. The first dimension of its ``inputs`` is the batch size.
        batch: The structure of a batch, ``x``, ``(x, y)`` or ``(x, y, sample_weight)``. Each array may be represented
            by any object that has a ``shape``.
        what: The name of the data in messages.
        field: The name of the argument in which the data was passed.
        divided: Whether the first dimension is the number of examples in one task's share.
    """
    x = batch[0] if isinstance(batch, tuple) else batch
    inputs = getattr(model, "inputs", None)
    of_keras = type(model).__module__.partition(".")[0] == "keras"
    if not of_keras or not inputs or len(inputs) != 1 or not hasattr(x, "shape"):
        return
    takes, has = tuple(inputs[0].shape), _shape(x.shape)
    if has is None or not is_one_example(has, takes, divided=divided):
        return
    received, advice = f"elements of shape {has}", "call `.batch(n)`"
    if divided:
        received = f"arrays of {len(has)} dimension{'s' * (len(has) != 1)}"
        advice = "call `.batch(n)` on a dataset, or give each array a batch dimension"
    raise InvalidInput(
        f"{what[:1].upper()}{what[1:]} in `{field}` must be batched, because the model takes batches of shape {takes}, "
        f"got {received}; {advice}",
        field=field,
    )


def is_one_example(has: Shape, takes: Shape, *, divided: bool = False) -> bool:
    """Return whether data of shape ``has`` is a single example for a model that takes batches of shape ``takes``."""
    if len(has) != len(takes) - 1 or takes[-1] == 1:  # Keras adds a last dimension of 1
        return False
    first = 1 if divided else 0
    return all(a is None or b is None or a == b for a, b in zip(has[first:], takes[first + 1 :], strict=True))


def _shape(shape: Any) -> tuple[int | None, ...] | None:
    """Return the shape as a tuple, or None if its rank is unknown."""
    if getattr(shape, "rank", 0) is None:
        return None
    return tuple(shape)
