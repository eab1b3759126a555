"""Ensures that only one process on this machine drives a study at a time, with a lock that ends with the process."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ...backend.machine import paths
from ...errors import Conflict
from ...schema import private_files

if TYPE_CHECKING:
    from optuna.study import Study


class StudyLock:
    """The right to drive a study, until ``end`` or the end of this process.

    Two drivers would each mistake the other's trials for those of a dead process. Raises Conflict if any process on
    this machine, including this one, already drives the study ``search_id``.
    """

    def __init__(self, study: Study, search_id: str) -> None:
        directory = private_files.own_dir(paths.connections_dir() / "searches")
        self._path: Path = directory / f"{search_id}.lock"
        self._file = self._open(study.study_name)
        while not os.fstat(self._file).st_nlink:  # its previous holder has removed it in the meantime
            os.close(self._file)
            self._file = self._open(study.study_name)
        os.truncate(self._file, 0)
        os.pwrite(self._file, str(os.getpid()).encode(), 0)

    def _open(self, study: str) -> int:
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(file, 20, 0).decode(errors="replace").strip()
            os.close(file)
            who = f"process {holder}" if holder else "another process"
            raise Conflict(
                f"Only one search at a time may drive the study {study!r:.200}, but {who} already drives it: wait for "
                "that search to end, or stop it"
            ) from None
        return file

    def end(self) -> None:
        """Release the lock, so that another search can drive the study. Does nothing if it is already released."""
        if self._file >= 0:
            with contextlib.suppress(OSError):
                self._path.unlink()
            os.close(self._file)
            self._file = -1
