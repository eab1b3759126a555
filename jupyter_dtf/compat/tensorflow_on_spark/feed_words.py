"""What a node and the processes that feed it call things: queues of its inlet, pieces of partitions, how it stands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from ...schema import private

INPUT = "input"
OUTPUT = "output"
ERROR = "error"
CONTROL = "control"
"""The end of its feed is the end of a node that serves (``ps``, ``evaluator``)."""
CONSUMED = "consumed"
"""Results: numbers of partitions that a node has consumed."""
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


def leave(inlet: Path, standing: Standing) -> None:
    """Leave word beside the inlet, before it refuses."""
    private.write_file(_path(inlet), json.dumps(standing._asdict()).encode())


def left(inlet: Path) -> Standing | None:
    """The word that was left; None where the node has left none."""
    try:
        return Standing(**json.loads(private.read_file(_path(inlet))))
    except OSError:
        return None


def _path(inlet: Path) -> Path:
    return inlet.with_suffix(".standing")
