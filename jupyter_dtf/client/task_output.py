"""Reads the output of a run's tasks as it arrives."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..schema.events import Logged

if TYPE_CHECKING:
    from ..backend.records.hub import Hub


class RunOutput:
    """The output of all tasks of a run, or of one, in the order in which it arrived, read piece by piece.

    It is read from the run's files or, if these are not accessible here, from the events in memory.
    """

    def __init__(self, hub: Hub, run_id: str, task: str = "") -> None:
        self._run_id = run_id
        self._task = task
        self._hub = hub
        self._next_event = 0
        self._places: dict[tuple[str, str], int] = {}
        self._lines: dict[tuple[str, str], int] = {}  # the number of lines from memory, keyed by task and stream

    def new(self) -> Iterator[Logged]:
        """Yield the output since the last call. That call's iterator must have been exhausted. Raises NotFound."""
        with self._hub.output(self._run_id, self._task) as reader:
            for block in reader.blocks(self._places):
                shown = max(0, self._lines.get((block.task, block.stream), 0) - block.first)
                if shown < len(block.lines):
                    block.first, block.lines = block.first + shown, block.lines[shown:]
                    yield block
            if reader.found:
                return
        for seq, event in self._hub.events(self._run_id, self._next_event - 1):
            self._next_event = seq + 1
            if isinstance(event, Logged) and self._task in ("", event.task):
                self._lines[event.task, event.stream] = event.first + len(event.lines)
                yield event


class LogLines:
    """The lines that a task has printed, or those of all tasks, each prefixed with its task."""

    def __init__(self, hub: Hub, run_id: str, task: str = "") -> None:
        self._hub = hub
        self._run_id = run_id
        self._task = task
        self._output = RunOutput(hub, run_id, task)

    def new(self) -> Iterator[str]:
        """Yield the lines since the last call. That call's iterator must have been exhausted. Raises NotFound."""
        for event in self._output.new():
            yield from event.lines if self._task else [f"{event.task} | {line}" for line in event.lines]

    def follow(self) -> Iterator[str]:
        """Yield every line as it arrives, until the run has ended. Raises NotFound."""
        changed = threading.Event()
        unsubscribe = self._hub.watch(self._run_id, changed)
        try:
            while True:
                changed.clear()
                ended = self._hub.record(self._run_id).info.state.is_final  # all output has been written by then
                yield from self.new()
                if ended:
                    return
                changed.wait()
        finally:
            unsubscribe()
