"""Definitions shared by a node and the processes that feed it: its queues, pieces of partitions, its state."""

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
"""The queue whose end ends a node that serves (``ps``, ``evaluator``)."""
_CONSUMED = "consumed"
QUEUES = (INPUT, OUTPUT, ERROR)
"""The default queues of a cluster."""


class Piece(NamedTuple):
    """Consecutive items of a partition to send; at least one."""

    partition: int
    items: list[Any]
    is_last: bool


class Standing(NamedTuple):
    """Why a node accepts no more data."""

    state: str
    """``terminating`` or ``ended``: it needs none; ``failed``; ``behind``: did not finish a partition in time."""
    text: str = ""
    """The traceback, or another message."""


def consumed(queue: str) -> str:
    """Return the name of the results that are the numbers of a queue's partitions that a node has consumed."""
    return f"{_CONSUMED} {queue}"


def leave(inlet: Path, standing: Standing, queue: str = "") -> None:
    """Write the state of the node, or of one queue, next to the inlet, before that starts to refuse data."""
    private_files.write_file(_path(inlet, queue), json.dumps(standing._asdict()).encode())


def left(inlet: Path, queue: str = "") -> Standing | None:
    """Return the state that was written: that of the node, else that of the queue, else None."""
    for path in [_path(inlet), *([_path(inlet, queue)] if queue else [])]:
        with suppress(OSError):
            return Standing(**json.loads(private_files.read_file(path)))
    return None


def _path(inlet: Path, queue: str = "") -> Path:
    # A queue's name may contain any character.
    own = f".{hashlib.sha256(queue.encode()).hexdigest()[:16]}" if queue else ""
    return inlet.with_suffix(f"{own}.standing")
