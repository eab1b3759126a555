"""The interface through which the chief makes the servers write their own parts of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras

from .....errors import Unavailable
from ...checkpoint.shards import can_be_sliced
from ...context import peer_lost
from .messages import AnyWord, CopyFile, Refused, WritePart
from .server_addresses import Places
from .wire import Channel

Parts = Sequence[Sequence[tuple[Any, str]]]
"""For each server, the variable and slice of each array of its state, as returned by ``slots.Plan.parts``."""


class ServedParts:
    """Implements ``Owners`` with the servers that hold variables to be written.

    Checkpoints use separate channels, so that a thread can wait for the servers while training continues.

    ``keys``: the checkpoint keys of the variables to write, keyed by the variable's id. ``take(final)`` makes every
    server keep a copy of its state.
    """

    def __init__(self, places: Places, parts: Parts, keys: Mapping[int, str], take: Callable[[bool], None]) -> None:
        named = [[("" if v is None else keys.get(id(v), ""), part) for v, part in of_one] for of_one in parts]
        self._places = places
        self._named = {server: of_one for server, of_one in enumerate(named) if any(key for key, _ in of_one)}
        self._take = take
        self._channels: dict[int, Channel] = {}
        self.keys = frozenset(key for of_one in named for key, _ in of_one if key)

    @property
    def count(self) -> int:
        return len(self._named)

    def copy(self, source: Path, targets: Sequence[Path]) -> None:
        if not self._channels:
            self._channels = {server: self._places.reach(server) for server in self._named}
        self._on_each([CopyFile(str(source), str(target)) for target in targets])

    def take(self, *, final: bool = False) -> None:
        self._take(final)

    def write(self, prefixes: Sequence[Path]) -> None:
        words = []
        for prefix, of_one in zip(prefixes, self._named.values(), strict=True):
            keys, slices = zip(*of_one, strict=True)
            words.append(WritePart(str(prefix), keys, slices))
        self._on_each(words)

    def close(self) -> None:
        """Disconnect from the servers."""
        for channel in self._channels.values():
            channel.close()

    def _on_each(self, words: Sequence[AnyWord]) -> None:
        """Send each server its message, and wait until all servers have answered.

        Raises RuntimeError if a server is lost, and Unavailable if it cannot carry out the request.
        """
        wrong: list[Exception] = []
        waiting = []
        for (server, channel), word in zip(self._channels.items(), words, strict=True):
            try:
                channel.send(word)
                waiting.append((server, channel))
            except OSError:
                wrong.append(self._gone(server))
        for server, channel in waiting:
            try:
                answer, _ = channel.receive()
            except (EOFError, OSError):
                wrong.append(self._gone(server))
            else:
                if isinstance(answer, Refused):
                    wrong.append(Unavailable(f"{self._places.servers[server]} cannot write: {answer.why}"))
        if wrong:
            raise wrong[0]

    def _gone(self, server: int) -> Exception:
        return peer_lost(f"The connection to {self._places.servers[server]} was lost")


def can_write_parts(parts: Parts) -> bool:
    """Return whether TensorFlow can merge the variables that are split into slices."""
    return all(can_be_sliced(keras.backend.standardize_dtype(v.dtype)) for each in parts for v, part in each if part)
