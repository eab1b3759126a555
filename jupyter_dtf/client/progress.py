"""Shows a run's progress: in a terminal, one line that is rewritten; otherwise, a line per epoch."""

from __future__ import annotations

import os
import threading
import time
from typing import Any, TextIO

from ..schema.events import EpochEnded, Note
from ..schema.run import RunInfo, RunState
from ..schema.sizes import duration, number
from . import terminal, wording
from .following import Follower
from .run import Run

_BARS = (24, 12, 6)
_REFRESH_S = 0.1
_CLEAR = "\r\x1b[K"


class TerminalProgress:
    """Draws the progress while its ``with`` block runs. Warnings, errors and epochs are printed on separate lines."""

    def __init__(self, run: Run, stream: TextIO | None) -> None:
        self._run_id = run.id
        self._hub = run._session.hub
        self._stream = stream
        self._rewrite = _is_terminal(stream) and os.environ.get("TERM") != "dumb"
        self._writing = threading.Lock()
        self._pace = TimeLeft()
        self._last_epoch: tuple[int, dict[str, float]] | None = None
        self._follower = Follower(run, self._draw, _REFRESH_S)

    def __enter__(self) -> TerminalProgress:
        self._follower.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._follower.__exit__(*error)
        if self._rewrite:
            terminal.write(self._stream, "\n")

    def line(self, text: str) -> None:
        """Write a separate line above the progress bar."""
        with self._writing:
            terminal.write(self._stream, f"{_CLEAR if self._rewrite else ''}{wording.without_control(text)}\n")

    def _draw(self) -> None:
        info = self._hub.info(self._run_id)
        for event in self._follower.new_events():
            if isinstance(event, Note) and event.level != "info":
                self.line(note_line(event))
            elif isinstance(event, EpochEnded) and (event.epoch, event.logs) != self._last_epoch:
                self._last_epoch = event.epoch, event.logs  # a new chief reports the last epoch again
                self.line(epoch_line(event, info))
        if self._rewrite and self._stream is not None:
            width = _width(self._stream) - 1  # a full line would wrap in some terminals
            line = progress_line(info, width, self._pace.left_s(info, time.time()))
            with self._writing:
                terminal.write(self._stream, _CLEAR + line)


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # the stream is closed
        return False


def _width(stream: TextIO) -> int:
    """Return the terminal's current width in characters."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):  # the terminal is gone
        return 80


def note_line(note: Note) -> str:
    """Return a warning or an error as one line."""
    task = f" ({note.task})" if note.task and note.task not in note.title else ""
    return f"{note.level}{task}: {' '.join(filter(None, [note.title.rstrip('.') + '.', note.text]))}"


def epoch_line(event: EpochEnded, info: RunInfo) -> str:
    """Return an epoch as one line, as Keras would print it."""
    epochs = info.progress.epochs
    values = " - ".join(f"{metric}: {value:.4g}" for metric, value in event.logs.items())
    return f"Epoch {event.epoch + 1}{f'/{epochs}' if epochs else ''} - {values}"


def progress_line(info: RunInfo, width: int, left_s: float | None = None) -> str:
    """Return the state of a run as a line of at most ``width`` characters.

    The line has a bar, the epoch, the time left and the latest metrics. Parts that do not fit are left out: first all
    metrics but one, then the bar, then the other parts from the end.
    """
    progress = info.progress
    bars, percent = [""], ""
    if progress.total:
        done = min(1.0, progress.done / progress.total)
        percent = f"{done:.0%}"
        bars = [f"{'━' * int(done * size)}{'╌' * (size - int(done * size))} {percent:>4}" for size in _BARS]
    rest = []
    if progress.epochs:
        rest.append(f"epoch {progress.epoch}/{progress.epochs}")
    has_ended = bool(info.started and info.ended)
    if info.started and info.ended:
        rest.append(duration(info.ended - info.started))
    if info.message and info.state is not RunState.SUCCEEDED:
        rest.append(wording.without_control(info.message))
    if left_s is not None and not has_ended:
        rest.append(f"{duration(left_s)} left")
    metrics = [f"{metric} {number(value):<7}" for metric, value in info.headline.items()]
    needed = len(rest) + len(metrics[:1])
    rest += metrics
    head = f"{wording.without_control(info.name)} {info.state.value}"
    choices = [(bar, count) for count in range(len(rest), needed - 1, -1) for bar in bars]
    without = [percent, ""] if info.message else [percent]  # the message may already give the progress
    choices += [(bar, count) for count in range(needed, -1, -1) for bar in without]
    for bar, count in choices:
        line = "  ".join(filter(None, [head, bar, *rest[:count]])).rstrip()
        if len(line) <= width:
            return line
    return line[: max(0, width - 1)] + "…" * (width > 0)


class TimeLeft:
    """Estimates the remaining time from the pace since the first reported progress, ignoring the start-up before it."""

    def __init__(self) -> None:
        self._first: tuple[float, int] | None = None

    def left_s(self, info: RunInfo, now: float) -> float | None:
        """Return the seconds left at ``now`` (seconds since 1970); None if unknown."""
        done, total = info.progress.done, info.progress.total
        if not done or not total or info.state.is_final:
            return None
        if self._first is None or done < self._first[1]:
            self._first = now, done
        since, before = self._first
        return (now - since) / (done - before) * max(0, total - done) if done > before else None
