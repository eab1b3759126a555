"""The output of a run's tasks in a notebook: a block for each task, with its last lines."""

from __future__ import annotations

import html
from collections import deque
from typing import Any

from ..client import wording
from ..client.following import Follower
from ..client.run import Run
from ..client.run_words import task_names
from ..schema.events import Logged
from .still import PALETTE

_REFRESH_S = 0.2
MOST_LINES = 500
"""The number of newest lines of each task that a notebook's output keeps; ``run.logs`` returns all lines."""
_MOST_LINE = 2000
"""The maximum number of characters of a line in a notebook's output."""


class BlockedOutput:
    """Shows the last lines that each task of a run prints while its ``with`` block runs."""

    def __init__(self, run: Run) -> None:
        self._blocks = Blocks(task_names(run.info))
        self._follower = Follower(run, self._show_new, _REFRESH_S)

    def __enter__(self) -> BlockedOutput:
        self._follower.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._follower.__exit__(*error)

    def _show_new(self) -> None:
        logged = [event for event in self._follower.new_events() if isinstance(event, Logged)]
        if logged:
            self._blocks.show(logged)


class Blocks:
    """One output of a notebook, with a block for each task that has printed anything, in rank order."""

    def __init__(self, tasks: list[str]) -> None:
        self._lines: dict[str, deque[tuple[str, str]]] = {task: deque(maxlen=MOST_LINES) for task in tasks}
        self._counts = dict.fromkeys(tasks, 0)
        self._next: dict[tuple[str, str], int] = {}
        self._handle: Any = None

    def show(self, events: list[Logged]) -> None:
        for event in events:
            source = event.task, event.stream
            if (left_out := event.first - self._next.get(source, 0)) > 0:  # lines that arrived too fast to be shown
                self._counts[event.task] += left_out
            self._next[source] = event.first + len(event.lines)
            for line in event.lines:
                self._add(event.task, event.stream, line)
        bundle = {"text/html": self.html(), "text/plain": self.text()}
        if self._handle is None:
            from IPython.display import display

            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)

    def _add(self, task: str, stream: str, line: str) -> None:
        kept = self._lines[task]
        if kept and kept[-1][0] == stream and kept[-1][1].endswith("\r"):  # a progress bar overwrites its line
            kept.pop()
            self._counts[task] -= 1
        kept.append((stream, line if len(line) <= _MOST_LINE else f"{line[:_MOST_LINE]} ..."))
        self._counts[task] += 1

    def html(self) -> str:
        """Return all blocks as HTML, with the tasks' output escaped."""
        blocks = []
        for number, (task, lines) in enumerate(self._lines.items()):
            if lines:
                body = "\n".join(
                    f'<span style="opacity: 0.7">{_text(line)}</span>' if stream == "stderr" else _text(line)
                    for stream, line in lines
                )
                blocks.append(
                    f'<div style="border-left: 3px solid {PALETTE[number % len(PALETTE)]}; padding-left: 8px; '
                    f'margin-bottom: 6px"><b>{html.escape(task)}</b>{self._earlier(task)}'
                    f'<pre style="margin: 0">{body}</pre></div>'
                )
        return "".join(blocks)

    def text(self) -> str:
        """Return all blocks as plain text."""
        return "\n".join(
            "\n".join([f"{task}{self._earlier(task)}", *(f"  {wording.without_control(line)}" for _, line in lines)])
            for task, lines in self._lines.items()
            if lines
        )

    def _earlier(self, task: str) -> str:
        hidden = self._counts[task] - len(self._lines[task])
        return f" ({hidden} earlier lines left out)" if hidden else ""


def _text(line: str) -> str:
    return html.escape(wording.without_control(line))
