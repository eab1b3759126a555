"""The user's own modules, which are sent to tasks, and the program that needs them.

A program's functions and classes are pickled by reference to their modules, so the modules must exist before the
program is unpickled.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Module:
    """A module or a package. ``files`` maps paths below its import directory, with slashes, to contents."""

    name: str
    files: dict[str, bytes]

    @property
    def size(self) -> int:
        """The total size of the files, in bytes."""
        return sum(map(len, self.files.values()))


@dataclass(frozen=True)
class Packed:
    """A pickled program: the pickle, and the arrays, which are sent as raw buffers."""

    body: bytes
    buffers: Sequence[pickle.PickleBuffer]

    @classmethod
    def of(cls, program: tuple[Any, ...]) -> Packed:
        """Pickle the program ``(function, args, kwargs)``."""
        import cloudpickle

        buffers: list[pickle.PickleBuffer] = []
        return cls(cloudpickle.dumps(program, protocol=5, buffer_callback=buffers.append), buffers)

    def open(self) -> Any:
        """Unpickle the program. Its modules must be importable."""
        return pickle.loads(self.body, buffers=self.buffers)
