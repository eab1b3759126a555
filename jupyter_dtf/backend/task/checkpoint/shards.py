"""Sharded checkpoints: several tasks hold the variables, and each of them writes its own part. The chief writes the
rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Union

from ....schema.checkpoint import StoredVariable

_SLICED = frozenset({"bfloat16", "float32", "float64"})
"""The floating-point types whose slices TensorFlow 2.21 can merge when it reads a checkpoint. It cannot merge float16
slices.
"""


class Owners(Protocol):
    """The chief's interface to the tasks that hold the trained variables, numbered from 0. Calls must not overlap."""

    @property
    def count(self) -> int:
        """The number of tasks that hold the trained variables."""

    @property
    def keys(self) -> frozenset[str]:
        """The keys of the arrays that these tasks write. The chief writes all other arrays."""

    def copy(self, source: Path, targets: Sequence[Path]) -> None:
        """Have each task copy a small file to its entry in ``targets``. Raises if a task cannot read the file."""

    def take(self, *, final: bool = False) -> None:
        """Have each task take a snapshot of its variables, all at the same step. ``final`` is whether all tasks have
        ended.
        """

    def write(self, prefixes: Sequence[Path]) -> None:
        """Have each task write its snapshot as a TensorFlow checkpoint whose prefix is the task's entry in
        ``prefixes``.

        Called in a background thread. Returns when no task is writing any more. Raises if a task fails or is lost.
        """


@dataclass(frozen=True)
class Sharded:
    """The contents of a sharded checkpoint.

    Attributes:
        variables: All variables, in order.
        arrays: The arrays that the chief writes, keyed by name.
        owners: The tasks that write the other arrays.
    """

    variables: list[StoredVariable]
    arrays: Mapping[str, Any]
    owners: Owners


Contents = Union[Mapping[str, Any], Sharded]
"""The contents of a checkpoint: all of its arrays, keyed by name; or the chief's arrays, and the tasks that hold the
other arrays.
"""


def slice_of(shape: Sequence[int], axis: int, first: int, length: int) -> str:
    """Return the specification, in the format of ``SaveV2``, of a slice of a variable.

    Args:
        shape: The shape of the whole variable.
        axis: The axis that is sliced: 0 for rows, -1 for columns.
        first: The first index of the slice.
        length: The number of indices.
    """
    parts = ["-"] * len(shape)
    parts[axis] = f"{first},{length}"
    return f"{' '.join(map(str, shape))} {':'.join(parts)}"


def can_be_sliced(dtype: str) -> bool:
    """Return whether several tasks can write slices of the same variable if it has this dtype."""
    return dtype in _SLICED
