"""One checkpoint after the other, each written by a thread of its own while the program goes on."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ....schema.checkpoint import Checkpoint, CheckpointInfo, Manifest, surplus
from ....schema.room import refusal
from . import saving
from .places import Place, at, place_of

NICENESS = 10
"""By how much a thread that writes goes behind the program: it has the time that the program leaves, and of a processor
that is all used a tenth.
"""

Told = Callable[[CheckpointInfo, list[int]], None]
"""Told of a complete checkpoint, and of the steps of those that are gone for it."""
Warned = Callable[[str, str], None]
"""Told what went wrong: a title and a text."""


class Writer:
    """Writes into ``directory`` and keeps there what ``policy`` says. Used by one thread.

    The thread that writes is no daemon: a task does not end before it.
    """

    def __init__(self, directory: Place, policy: Checkpoint, told: Told, warned: Warned) -> None:
        self._directory = directory
        self._keeping = at(directory)
        self._policy = policy
        self._told = told
        self._warned = warned
        self._thread: threading.Thread | None = None
        self._failure = ""
        self._is_clean = False
        self.last_s = 0.0
        """How long the last one took to write."""

    @property
    def is_busy(self) -> bool:
        """Whether one is being written."""
        return self._thread is not None and self._thread.is_alive()

    def write(self, manifest: Manifest, arrays: Mapping[str, Any], state: bytes, *, last: bool = False) -> None:
        """Begin to write; nobody may change the arrays any more until that is done. Waits for the one before.

        ``last``: the program has nothing to do meanwhile.
        """
        self.wait()
        saving.begins()  # and not only when the thread has come to it
        self._thread = threading.Thread(
            target=self._write, args=(manifest, arrays, state, last), name="dtf-checkpoint", daemon=False
        )
        self._thread.start()

    def wait(self) -> None:
        """Wait until nothing is being written."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _write(self, manifest: Manifest, arrays: Mapping[str, Any], state: bytes, last: bool) -> None:
        begun = time.perf_counter()
        if not last:
            _go_behind()
        try:
            if not self._is_clean:
                self._keeping.clean(self._directory)
                self._is_clean = True
            path = self._keeping.write(self._directory, manifest, arrays, state)
        except Exception as error:
            self._failed(manifest.step, error)
            return
        finally:
            self.last_s = time.perf_counter() - begun
            saving.ends()
        self._failure = ""
        info = manifest.info(path)
        info.seconds = self.last_s
        self._told(info, self._remove_surplus())

    def _remove_surplus(self) -> list[int]:
        removed: list[int] = []
        try:
            known = self._keeping.known(self._directory)
        except Exception as error:  # a place elsewhere that does not answer
            self._warn("Checkpoints that are not needed any more stay", f"{self._directory}: {error}")
            return removed
        for info in surplus(known, self._policy):
            try:
                self._keeping.remove(place_of(info.path))
            except Exception as error:
                self._warn(f"The checkpoint of step {info.step} stays", f"{info.path}: {error}")
            else:
                removed.append(info.step)
        return removed

    def _failed(self, step: int, error: Exception) -> None:
        self._is_clean = False
        if isinstance(error, OSError) and isinstance(self._directory, Path):
            why = refusal(self._directory, "A checkpoint", error)
        else:
            where = "" if isinstance(self._directory, Path) else f"{self._directory}: "
            why = f"{where}{type(error).__name__}: {error}"
        self._warn(f"The checkpoint of step {step} was not written", f"{why}. The last complete one is as it was")

    def _warn(self, title: str, text: str) -> None:
        """Tell of it once, until it is another thing or one has been written."""
        if text != self._failure:
            self._failure = text
            self._warned(title, text)


def _go_behind() -> None:
    """Let this thread have what time of the processors the others leave."""
    with contextlib.suppress(OSError):  # where the system does not know priorities of threads
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)
