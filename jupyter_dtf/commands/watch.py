"""``jupyter dtf watch``: shows a run in a terminal with text plots, which are redrawn as the run progresses."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TextIO

import numpy as np

from ..backend.records.series import Series
from ..client import terminal, wording
from ..client.following import Follower
from ..client.progress import TimeLeft, note_line, progress_line
from ..client.run import Run
from ..client.text_plot import Line, plot
from ..schema.events import Note
from ..schema.metrics import VALIDATION, direction, family
from ..schema.run import RunInfo

PERIOD_S = 0.5
MOST_PLOTS = 4
_NOTES = 3
_WIDE = 100
"""The smallest width, in characters, at which two plots are drawn side by side."""
_LEAST_HEIGHT, _MOST_HEIGHT = 4, 12
_POINTS = 2000
"""The largest number of points drawn for a line. Each is the mean of about the same number of reported points."""


def watch(run: Run, stream: TextIO | None = None) -> None:
    """Draw a run until it has ended; if output is not a terminal, once at the end. Interrupts do not affect the run."""
    out = sys.stdout if stream is None else stream
    view = View(run, out)
    if not out.isatty():
        run.wait()
        view.draw()
        return
    with Follower(run, view.draw, PERIOD_S):
        run.wait()


class View:
    """A view of a run on a terminal, where each drawing replaces the previous one."""

    def __init__(self, run: Run, stream: TextIO) -> None:
        self._run = run
        self._stream = stream
        self._left = TimeLeft()
        self._rows = 0
        self._plain = not _has_braille(stream)

    def draw(self) -> None:
        """Draw the current state of the run."""
        size = shutil.get_terminal_size()
        info = self._run.info
        lines = self.picture(info, size.columns - 1, size.lines - 1)
        above = f"\x1b[{self._rows}A\r\x1b[J" if self._rows and self._stream.isatty() else ""
        self._rows = len(lines)
        terminal.write(self._stream, above + "".join(f"{line}\n" for line in lines))

    def picture(self, info: RunInfo, width: int, height: int) -> list[str]:
        """Return the run as lines of at most ``width`` characters: progress, plots and warnings."""
        lines = [progress_line(info, width, self._left.left_s(info, time.time()))]
        events = self._run._session.hub.events(info.id)
        notes = [note_line(event) for _, event in events if isinstance(event, Note) and event.level != "info"][-_NOTES:]
        names = self._plotted(info)
        across = 2 if width >= _WIDE and len(names) > 1 else 1
        rows = -(-len(names) // across)
        each = min(_MOST_HEIGHT, max(_LEAST_HEIGHT, (height - len(lines) - len(notes) - rows) // max(rows, 1)))
        for first in range(0, len(names), across):
            beside = [self._plot(info, name, width // across - 1, each) for name in names[first : first + across]]
            lines += [
                " ".join(part.ljust(width // across - 1) for part in row).rstrip() for row in zip(*beside, strict=True)
            ]
        return lines + [wording.without_control(note)[:width] for note in notes]

    def _plotted(self, info: RunInfo) -> list[str]:
        """Return the metrics that have a plot. A validation metric shares the plot of the training metric."""
        names = [name for name in info.headline if not name.startswith(VALIDATION)]
        alone = [name for name in info.headline if name.startswith(VALIDATION) and name[len(VALIDATION) :] not in names]
        return [*names, *alone][:MOST_PLOTS]

    def _plot(self, info: RunInfo, name: str, width: int, height: int) -> list[str]:
        hub = self._run._session.hub
        known = hub.record(info.id).metrics
        shown = {VALIDATION + name: True, self._newest_form(name, known): False}
        lines = []
        for metric, dashed in shown.items():
            if metric in known:
                found = hub.lines(info.id, [metric])
                series = found.get((metric, "")) or next(iter(found.values()), None)
                if series is not None and len(series):
                    lines.append(_line(series, dashed))
        said = [f"{name} {wording.metric_value(name, info.headline[name])}"]
        if (value := info.headline.get(VALIDATION + name)) is not None:
            said.append(f"validation (dashed) {wording.metric_value(name, value)}")
        if (best := info.best.get(VALIDATION + name, info.best.get(name))) is not None and direction(name):
            said.append(f"best {wording.metric_value(name, best.value)}")
        return ["  ".join(said)[:width], *plot(lines, width, height, plain=self._plain)]

    @staticmethod
    def _newest_form(name: str, known: list[str]) -> str:
        """Return the metric that the plot of ``name`` shows: ``name``, or the variant of it that the run has."""
        if name in known:
            return name
        return next((metric for metric in known if family(metric, known) == name), name)


def _line(series: Series, dashed: bool) -> Line:
    x, y = series.step, series.value
    if x.size > _POINTS:
        edges = np.linspace(0, x.size, _POINTS + 1).astype(int)[:-1]
        counts = np.diff([*edges, x.size])
        x, y = np.add.reduceat(x, edges) / counts, np.add.reduceat(y, edges) / counts
    return Line(x, y, dashed)


def _has_braille(stream: TextIO) -> bool:
    try:
        "\u28ff".encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
