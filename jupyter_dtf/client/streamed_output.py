"""Shows the output of a run's tasks line by line as it arrives."""

from __future__ import annotations

import sys
from typing import Any

from . import terminal
from .following import Follower
from .run import Run
from .task_output import RunOutput

_REFRESH_S = 0.2


class StreamedOutput:
    """Shows the output of a run's tasks while its ``with`` block runs, and any remaining output at the end.

    Each line is prefixed with its task, and standard error remains separate from standard output.
    """

    def __init__(self, run: Run) -> None:
        self._log = RunOutput(run._session.hub, run.id)
        self._follower = Follower(run, self._show_new, _REFRESH_S)

    def __enter__(self) -> StreamedOutput:
        self._follower.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._follower.__exit__(*error)

    def _show_new(self) -> None:
        for event in self._log.new():
            stream = sys.stderr if event.stream == "stderr" else sys.stdout
            terminal.write(stream, "".join(f"{event.task} | {line}\n" for line in event.lines))
