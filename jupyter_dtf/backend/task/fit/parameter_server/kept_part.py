"""A ``ps`` task's part of a checkpoint: copied when the chief says so, and written beside the training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .....schema import private_files
from ...checkpoint import files
from ...checkpoint.saving import saving
from ...checkpoint.snapshots import Snapshots
from ...checkpoint.writer import go_behind
from .messages import AnyWord, CopyFile, Done, Refused, WritePart
from .wire import Channel


class KeptPart:
    """What this task holds, as it was when ``take`` was called last."""

    def __init__(self) -> None:
        self._snapshots = Snapshots()
        self._arrays: list[Any] = []

    def take(self, variables: Sequence[Any]) -> None:
        """Copy what variables hold. Nothing may be writing the last copy."""
        self._arrays = list(self._snapshots.take((str(i), v) for i, v in enumerate(variables)).values())

    def serve(self, channel: Channel, word: AnyWord) -> None:
        """Do what the chief asks for, in a thread of its own, until it has gone. ``word``: the first that it said."""
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
        except Exception as error:  # the chief says what became of the checkpoint; the training goes on
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
