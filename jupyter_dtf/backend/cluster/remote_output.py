"""Saves the output of tasks on machines that cannot access the run directories.

The hosts on these machines do not save output. Only output that they send to viewers is saved; it is complete unless a
task prints more than a person can read.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from ...schema.events import LOG, POINTS, Logged, RunChanged, decode_event
from ..records.output_files import OutputWriter, lines_file


class OutputElsewhere:
    """Writes the output files of such tasks in the cluster process, alongside the archive."""

    def __init__(self, runs_dir: Path) -> None:
        self._runs_dir = runs_dir
        self._writers: dict[str, dict[tuple[str, str], OutputWriter]] = {}

    def take(self, run_id: str, data: bytes) -> None:
        """Process an encoded event of a run."""
        if not data.startswith(LOG, 1):
            self._look_for_end(run_id, data)
            return
        with contextlib.suppress(msgspec.MsgspecError):
            event = decode_event(data)
            if isinstance(event, Logged) and not event.kept and event.lines:
                writers = self._writers.setdefault(run_id, {})
                source = event.task, event.stream
                if source not in writers:
                    path = lines_file(self._runs_dir / run_id, *source)
                    writers[source] = OutputWriter(path, goes_on=event.attempt > 0)
                block = "".join(f"{line}\n" for line in event.lines).encode()
                writers[source].write(event.time, event.first, len(event.lines), block)

    def _look_for_end(self, run_id: str, data: bytes) -> None:
        if run_id not in self._writers or data.startswith(POINTS, 1):
            return
        with contextlib.suppress(msgspec.MsgspecError):
            event = decode_event(data)
            if isinstance(event, RunChanged) and event.state.is_final:
                self.close(run_id)

    def close(self, run_id: str) -> None:
        """Close the files of a run."""
        for writer in self._writers.pop(run_id, {}).values():
            writer.close()

    def close_all(self) -> None:
        for run_id in list(self._writers):
            self.close(run_id)
