"""Checkpoints whose variables lie in several tasks: each of these writes its own, beside what the chief writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Union

from ....schema.checkpoint import StoredVariable

_SLICED = frozenset({"bfloat16", "float32", "float64"})
"""The floating-point types whose slices TensorFlow 2.21 puts together again; it does not those of float16."""


class Owners(Protocol):
    """The tasks that hold what is trained, numbered from 0, as the chief speaks with them. One call at a time."""

    @property
    def count(self) -> int:
        """How many there are."""

    @property
    def keys(self) -> frozenset[str]:
        """The keys of the arrays that they write; all others are the chief's."""

    def copy(self, source: Path, targets: Sequence[Path]) -> None:
        """Have each of them copy a small file, to its own one of ``targets``. Raises if one does not see it."""

    def take(self, *, final: bool = False) -> None:
        """Have each of them keep a copy of what it holds, all of the same step. ``final``: when all have ended."""

    def write(self, prefixes: Sequence[Path]) -> None:
        """Have each of them write that copy as a TensorFlow checkpoint of this prefix. Called in another thread.

        Returns when none of them is writing any more. Raises if one of them has failed or gone.
        """


@dataclass(frozen=True)
class Sharded:
    """What a checkpoint holds. ``variables``: all of it, in order; ``arrays``: by key, what the chief writes itself."""

    variables: list[StoredVariable]
    arrays: Mapping[str, Any]
    owners: Owners


Contents = Union[Mapping[str, Any], Sharded]
"""All arrays of a checkpoint by key, or what of it is the chief's and who has the others."""


def slice_of(shape: Sequence[int], axis: int, first: int, length: int) -> str:
    """A part of a variable of this shape, as ``SaveV2`` spells it: so many rows (axis 0) or columns (the last one)."""
    parts = ["-"] * len(shape)
    parts[axis] = f"{first},{length}"
    return f"{' '.join(map(str, shape))} {':'.join(parts)}"


def can_be_sliced(dtype: str) -> bool:
    """Whether parts of variables of a type can be written by several tasks."""
    return dtype in _SLICED
