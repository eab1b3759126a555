"""The output of a run's tasks as it comes, each under its task's name."""

from __future__ import annotations

import html
import sys
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any, Protocol

from ..schema.events import Logged
from . import words
from .following import Follower
from .run import Run, task_names
from .session import session
from .still import PALETTE
from .waiting import in_notebook

_REFRESH_S = 0.2
MOST_LINES = 500
"""What a notebook's output keeps of each task, the newest; ``run.logs`` has all."""


class Outputs:
    """Shows what the tasks of a run print while its ``with`` block runs; at its end, all of it.

    In a notebook every task has a block of its own; elsewhere each line begins with its task's name.
    """

    def __init__(self, run: Run) -> None:
        self._view: _View = Blocks(task_names(run.info)) if in_notebook() else Stream()
        self._follower = Follower(run, self._show_new, _REFRESH_S)

    def __enter__(self) -> Outputs:
        self._follower.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._follower.__exit__(*error)

    def _show_new(self) -> None:
        logged = [event for event in self._follower.new_events() if isinstance(event, Logged)]
        if logged:
            self._view.show(logged)


class LogLines:
    """What a run's tasks have printed, as lines: of one task, or of all with each line's task before it."""

    def __init__(self, run_id: str, task: str = "") -> None:
        self._run_id = run_id
        self._task = task
        self._hub = session().hub
        self._next_event = 0

    def new(self) -> list[str]:
        """The lines since the last call. Raises NotFound."""
        lines: list[str] = []
        for seq, event in self._hub.events(self._run_id, self._next_event - 1):
            self._next_event = seq + 1
            if isinstance(event, Logged) and self._task in ("", event.task):
                lines += event.lines if self._task else [f"{event.task} | {line}" for line in event.lines]
        return lines

    def follow(self) -> Iterator[str]:
        """Every line as it comes, until the run has ended. Raises NotFound."""
        changed = threading.Event()
        unsubscribe = self._hub.subscribe(lambda run_id: changed.set() if run_id == self._run_id else None)
        try:
            while True:
                changed.clear()
                ended = self._hub.record(self._run_id).info.state.is_final  # every event before that is there
                yield from self.new()
                if ended:
                    return
                changed.wait()
        finally:
            unsubscribe()


class _View(Protocol):
    def show(self, events: list[Logged]) -> None:
        """Show more output, oldest first."""


class Stream:
    """Each line with its task before it, on the stream that it was written to."""

    def show(self, events: list[Logged]) -> None:
        for event in events:
            stream = sys.stderr if event.stream == "stderr" else sys.stdout
            stream.write("".join(f"{event.task} | {line}\n" for line in event.lines))
            stream.flush()


class Blocks:
    """One output of a notebook, with a block for each task that has printed anything, in order of rank."""

    def __init__(self, tasks: list[str]) -> None:
        self._lines: dict[str, deque[tuple[str, str]]] = {task: deque(maxlen=MOST_LINES) for task in tasks}
        self._counts = dict.fromkeys(tasks, 0)
        self._handle: Any = None

    def show(self, events: list[Logged]) -> None:
        for event in events:
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
        if kept and kept[-1][0] == stream and kept[-1][1].endswith("\r"):  # a progress bar: it is drawn over
            kept.pop()
            self._counts[task] -= 1
        kept.append((stream, line))
        self._counts[task] += 1

    def html(self) -> str:
        """All blocks. What tasks print is text in it, never markup."""
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
        """All blocks as plain text."""
        return "\n".join(
            "\n".join([f"{task}{self._earlier(task)}", *(f"  {words.without_control(line)}" for _, line in lines)])
            for task, lines in self._lines.items()
            if lines
        )

    def _earlier(self, task: str) -> str:
        hidden = self._counts[task] - len(self._lines[task])
        return f" ({hidden} earlier lines left out)" if hidden else ""


def _text(line: str) -> str:
    return html.escape(words.without_control(line))
