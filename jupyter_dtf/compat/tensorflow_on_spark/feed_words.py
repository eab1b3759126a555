"""What a node and the processes that feed it call things: queues of its inlet, pieces of partitions, how it stands."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ...schema import private

INPUT = "input"
OUTPUT = "output"
ERROR = "error"
CONTROL = "control"
"""The end of its feed is the end of a node that serves (``ps``, ``evaluator``)."""
_CONSUMED = "consumed"
QUEUES = (INPUT, OUTPUT, ERROR)
"""What a cluster's queues are, where nothing else is said."""


class Piece(NamedTuple):
    """Items of a partition on their way, in order; at least one."""

    partition: int
    items: list[Any]
    is_last: bool


class Standing(NamedTuple):
    """Why a node takes no more data."""

    state: str
    """``terminating`` or ``ended``: it wants none; ``failed``; ``behind``: not done with a partition in time."""
    text: str = ""
    """The traceback, or what was said then."""


def consumed(queue: str) -> str:
    """Results: numbers of the partitions of a queue that a node has consumed."""
    return f"{_CONSUMED} {queue}"


def leave(inlet: Path, standing: Standing, queue: str = "") -> None:
    """Leave word beside the inlet, before it refuses: of the whole node, or of one queue alone."""
    private.write_file(_path(inlet, queue), json.dumps(standing._asdict()).encode())


def left(inlet: Path, queue: str = "") -> Standing | None:
    """The word that was left: of the node, or else of the queue; None where it has left none."""
    for path in [_path(inlet), *([_path(inlet, queue)] if queue else [])]:
        with suppress(OSError):
            return Standing(**json.loads(private.read_file(path)))
    return None


def _path(inlet: Path, queue: str = "") -> Path:
    # A queue may be called anything.
    own = f".{hashlib.sha256(queue.encode()).hexdigest()[:16]}" if queue else ""
    return inlet.with_suffix(f"{own}.standing")
