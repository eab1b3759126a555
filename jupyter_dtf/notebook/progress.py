"""What a person sees while a run is waited for: the live dashboard in a notebook, a line with a bar in a terminal."""

from __future__ import annotations

import sys
import threading
import time
from typing import TextIO

from ..schema.events import EpochEnded, Note
from ..schema.run import RunInfo
from .run import Run, Waiting, headline

_BAR = 24
_REFRESH_S = 0.1


def show_until_end(run: Run) -> None:
    """Show the run and wait until it has ended."""
    if in_notebook():
        run.show()
        Waiting(run)()
    else:
        with TerminalProgress(run, sys.stderr):
            Waiting(run)()


def in_notebook() -> bool:
    """Whether output goes to a notebook's cell."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


class TerminalProgress:
    """Draws a run's progress: one line that is rewritten on a terminal, a line for each epoch elsewhere."""

    def __init__(self, run: Run, stream: TextIO) -> None:
        self._run = run
        self._stream = stream
        self._rewrite = stream.isatty()
        self._changed = threading.Event()
        self._done = threading.Event()
        self._next_event = 0
        self._thread = threading.Thread(target=self._draw, name="dtf-progress", daemon=True)

    def __enter__(self) -> TerminalProgress:
        hub = self._run._session.hub
        self._unsubscribe = hub.subscribe(lambda run_id: self._changed.set() if run_id == self._run.id else None)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._unsubscribe()
        self._done.set()
        self._changed.set()
        self._thread.join()

    def _draw(self) -> None:
        while not self._done.is_set():
            self._changed.wait()
            self._changed.clear()
            self._draw_once()
            self._done.wait(_REFRESH_S)  # no more often than the eye can follow
        self._draw_once()
        if self._rewrite:
            self._stream.write("\n")

    def _draw_once(self) -> None:
        info = self._run.info
        for seq, event in self._run._session.hub.events(self._run.id, self._next_event - 1):
            self._next_event = seq + 1
            if isinstance(event, Note) and event.level != "info":
                self._line(f"{event.level}: {event.title}. {event.text}".rstrip())
            elif isinstance(event, EpochEnded):
                self._line(epoch_line(event, info))
        if self._rewrite:
            self._stream.write("\r\x1b[K" + progress_line(info))
            self._stream.flush()

    def _line(self, text: str) -> None:
        self._stream.write(("\r\x1b[K" if self._rewrite else "") + text + "\n")
        self._stream.flush()


def epoch_line(event: EpochEnded, info: RunInfo) -> str:
    """An epoch in one line, as Keras would print it."""
    epochs = info.progress.epochs
    values = " - ".join(f"{metric}: {value:.4g}" for metric, value in event.logs.items())
    return f"Epoch {event.epoch + 1}{f'/{epochs}' if epochs else ''} - {values}"


def progress_line(info: RunInfo) -> str:
    """The state of a run as a bar with its newest metrics."""
    progress = info.progress
    parts = [f"{info.name} {info.state.value}"]
    if progress.total:
        done = min(1.0, progress.done / progress.total)
        filled = int(done * _BAR)
        parts.append(f"{'━' * filled}{'╌' * (_BAR - filled)} {done:4.0%}")
    if progress.epochs:
        parts.append(f"epoch {progress.epoch}/{progress.epochs}")
    if info.started and not info.ended and progress.total and progress.done:
        elapsed = time.time() - info.started
        parts.append(f"{elapsed * (progress.total / progress.done - 1):.0f} s left")
    parts += [f"{metric} {value:.4g}" for metric, value in headline(info.latest).items()]
    return "  ".join(parts)
