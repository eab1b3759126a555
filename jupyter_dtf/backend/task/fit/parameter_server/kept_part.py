"""A ``ps`` task's part of a checkpoint: copied at the chief's request, and written while training continues."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .....schema import private_files
from ...checkpoint import files
from ...checkpoint.save_state import saving
from ...checkpoint.snapshots import Snapshots
from ...checkpoint.writer import go_behind
from .messages import AnyWord, CopyFile, Done, Refused, WritePart
from .wire import Channel


class KeptPart:
    """A snapshot of the variables that this task holds, taken by the last call to ``take``."""

    def __init__(self) -> None:
        self._snapshots = Snapshots()
        self._arrays: list[Any] = []

    def take(self, variables: Sequence[Any]) -> None:
        """Copy the values of variables. The previous snapshot must not be in use by a writer."""
        self._arrays = list(self._snapshots.take((str(i), v) for i, v in enumerate(variables)).values())

    def serve(self, channel: Channel, word: AnyWord) -> None:
        """Handle the chief's requests until it disconnects. Runs in its own thread. ``word``: the first request."""
        go_behind()
        while True:
            try:
                channel.send(self._answer(word))
                word, _ = channel.receive()
            except (EOFError, OSError):
                return

    def _answer(self, word: AnyWord) -> AnyWord:
        try:
            with saving():
                self._do(word)
        except Exception as error:  # the chief reports the failure of the checkpoint, and training continues
            return Refused(f"{type(error).__name__}: {error}")
        return Done()

    def _do(self, word: AnyWord) -> None:
        if isinstance(word, CopyFile):
            private_files.write_file(Path(word.target), private_files.read_file(Path(word.source)))
            return
        assert isinstance(word, WritePart)
        written = [i for i, key in enumerate(word.keys) if key]
        files.save(
            Path(word.prefix),
            [word.keys[i] for i in written],
            [self._arrays[i] for i in written],
            [word.slices[i] for i in written],
        )
