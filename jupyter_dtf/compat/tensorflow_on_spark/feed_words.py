"""Definitions shared by a node and the processes that feed it: queues, pieces of partitions, and the node's state."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ...schema import private_files

INPUT = "input"
OUTPUT = "output"
ERROR = "error"
CONTROL = "control"
"""A queue of serving nodes (``ps``, ``evaluator``): a node ends when this queue ends."""
_CONSUMED = "consumed"
QUEUES = (INPUT, OUTPUT, ERROR)
"""The default queues of a cluster."""


class Piece(NamedTuple):
    """One or more consecutive items of a partition, sent together."""

    partition: int
    items: list[Any]
    is_last: bool


class Standing(NamedTuple):
    """The state of a node that accepts no more data."""

    state: str
    """``terminating`` or ``ended`` (no more data is needed), ``failed``, or ``behind`` (a partition took too long)."""
    text: str = ""
    """A message: the traceback if the node has failed."""


def consumed(queue: str) -> str:
    """Return the name of the queue through which a node reports the numbers of the partitions that it has consumed from
    ``queue``.
    """
    return f"{_CONSUMED} {queue}"


def leave(inlet: Path, standing: Standing, queue: str = "") -> None:
    """Write the state of a node, or of one queue, next to the inlet, before the inlet starts to reject data."""
    private_files.write_file(_path(inlet, queue), json.dumps(standing._asdict()).encode())


def left(inlet: Path, queue: str = "") -> Standing | None:
    """Return the state that was written for the node or, if there is none, for the queue; None if there is neither."""
    for path in [_path(inlet), *([_path(inlet, queue)] if queue else [])]:
        with suppress(OSError):
            return Standing(**json.loads(private_files.read_file(path)))
    return None


def _path(inlet: Path, queue: str = "") -> Path:
    # A queue's name may contain any character.
    own = f".{hashlib.sha256(queue.encode()).hexdigest()[:16]}" if queue else ""
    return inlet.with_suffix(f"{own}.standing")
