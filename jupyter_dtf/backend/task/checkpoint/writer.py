"""Writes checkpoints one after the other, each in a background thread."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from ....schema.checkpoint import Checkpoint, CheckpointInfo, Manifest, surplus
from ....schema.disk_space import refusal
from . import save_state
from .places import Place, at, place_of
from .shards import Contents

NICENESS = 10
"""The niceness of the writing thread relative to the program: it gets the CPU time that the program does not use, and
about a tenth of a fully used CPU.
"""

Told = Callable[[CheckpointInfo, list[int]], None]
"""Called when a checkpoint is complete, with its description and the steps of the older checkpoints that were removed.
"""
Warned = Callable[[str, str], None]
"""Called with the title and text of a problem."""


class Writer:
    """Writes checkpoints to ``directory`` and keeps as many as ``policy`` specifies. Not thread-safe.

    The writing thread is not a daemon thread, so a task does not exit before the checkpoint is written.
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
        """The time in seconds that writing the last checkpoint took."""

    @property
    def is_busy(self) -> bool:
        """Whether a checkpoint is being written."""
        return self._thread is not None and self._thread.is_alive()

    def write(self, manifest: Manifest, arrays: Contents, state: bytes, *, last: bool = False) -> None:
        """Wait until the previous checkpoint is written, then start writing this one.

        Neither the arrays nor the snapshots of other tasks may change until the checkpoint is written. ``last`` is
        whether the program has nothing else to do in the meantime.
        """
        self.wait()
        save_state.begins()  # here, because the thread may start running later
        self._thread = threading.Thread(
            target=self._write, args=(manifest, arrays, state, last), name="dtf-checkpoint", daemon=False
        )
        self._thread.start()

    def wait(self) -> None:
        """Wait until nothing is being written."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _write(self, manifest: Manifest, arrays: Contents, state: bytes, last: bool) -> None:
        begun = time.perf_counter()
        if not last:
            go_behind()
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
            save_state.ends()
        self._failure = ""
        info = manifest.info(path)
        info.seconds = self.last_s
        self._told(info, self._remove_surplus())

    def _remove_surplus(self) -> list[int]:
        removed: list[int] = []
        try:
            known = self._keeping.known(self._directory)
        except Exception as error:  # for example, remote storage that does not respond
            self._warn("Old checkpoints could not be removed", f"{self._directory}: {error}")
            return removed
        for info in surplus(known, self._policy):
            try:
                self._keeping.remove(place_of(info.path))
            except Exception as error:
                self._warn(f"The checkpoint of step {info.step} could not be removed", f"{info.path}: {error}")
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
        self._warn(f"The checkpoint of step {step} was not written", f"{why}. The last complete one is unchanged")

    def _warn(self, title: str, text: str) -> None:
        """Warn, unless the last warning was the same and no checkpoint has succeeded since then."""
        if text != self._failure:
            self._failure = text
            self._warned(title, text)


def go_behind() -> None:
    """Lower the priority of this thread."""
    with contextlib.suppress(OSError):  # the system may not support thread priorities
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)
