"""Shows runs in TensorBoard, which is imported only when it is used.

The store has every point of every run. Event files are created from it on request, and extended while a run continues.
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import DtfError, NotFound, Unavailable
from .tensorboard_process import TensorBoard

if TYPE_CHECKING:
    import pandas as pd

    from ..schema.run import RunInfo

EVENT_FILE = "events.out.tfevents."
"""The prefix of the names of event files."""
_AGAIN_S = 5.0
"""The interval between updates: TensorBoard itself reloads every 5 s."""
_SHARE = 10
"""The pause between updates is at least this many times as long as the last update took."""


class Written(Protocol):
    """The attributes of a ``Run`` that are needed to write its event files."""

    @property
    def id(self) -> str: ...

    @property
    def info(self) -> RunInfo: ...

    @property
    def metrics(self) -> pd.DataFrame: ...


class LogDirectory:
    """Event files of a run, in one directory per task. Existing event files in these directories are replaced."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.root = Path(directory).expanduser()
        self.root.mkdir(parents=True, exist_ok=True)
        self._writers: dict[str, Any] = {}
        self._until: dict[tuple[str, str], float] = {}

    def add(self, metrics: pd.DataFrame) -> None:
        """Write the points of ``Run.metrics`` that are later than those written so far for their task and metric."""
        from tensorboard.compat.proto import event_pb2, summary_pb2

        for name, points in metrics.groupby("task", sort=False):
            task = str(name)
            writer = self._writer(task)
            until = points["metric"].map(lambda metric, task=task: self._until.get((task, metric), -1.0))
            new = points[points["time"] > until].sort_values(["step", "time"])
            for (step, seconds), values in new.groupby(["step", "time"], sort=False):
                pairs = zip(values["metric"], values["value"], strict=True)
                shown = [summary_pb2.Summary.Value(tag=metric, simple_value=value) for metric, value in pairs]
                summary = summary_pb2.Summary(value=shown)
                writer.add_event(event_pb2.Event(wall_time=seconds, step=int(step), summary=summary))
            for metric, last in new.groupby("metric", sort=False)["time"].max().items():
                self._until[task, str(metric)] = float(last)
            writer.flush()

    def close(self) -> None:
        """Close the files. ``add`` must not be called afterwards."""
        for writer in self._writers.values():
            writer.close()

    def _writer(self, task: str) -> Any:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        if task not in self._writers:
            own = self.root / task.replace(":", "_")
            for old in own.glob(f"{EVENT_FILE}*"):
                old.unlink()
            self._writers[task] = EventFileWriter(str(own))
        return self._writers[task]


class Follower:
    """Writes runs to log directories: their existing points on creation, and new ones in a thread."""

    def __init__(self, runs: Callable[[], Iterable[tuple[Written, Path]]]) -> None:
        """``runs()`` returns each run with its directory. It is called repeatedly, because runs may be added."""
        self._runs = runs
        self._open: dict[str, LogDirectory | None] = {}
        """The log directories, keyed by run id; None for a run that has ended and is completely written."""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="dtf-tensorboard", daemon=True)
        self._took_s = self._write()
        self._thread.start()

    def close(self) -> None:
        """Stop following the runs, and close the files."""
        self._closing.set()
        self._thread.join()
        for each in self._open.values():
            if each is not None:
                each.close()

    def _write(self) -> float:
        """Write new points. Return how long that took, in seconds."""
        began = time.monotonic()
        for run, directory in self._runs():
            if self._closing.is_set():
                break
            if run.id not in self._open:
                self._open[run.id] = LogDirectory(directory)
            if (own := self._open[run.id]) is not None:
                try:
                    has_ended = run.info.state.is_final  # checked before reading: then no more points can follow
                    own.add(run.metrics)
                except NotFound:  # the run was deleted
                    has_ended = True
                if has_ended:
                    own.close()
                    self._open[run.id] = None
        return time.monotonic() - began

    def _go_on(self) -> None:
        while not self._closing.wait(max(_AGAIN_S, _SHARE * self._took_s)):
            # A full disk or a busy store, for example: the missing points are written once it works again.
            with suppress(OSError, DtfError):
                self._took_s = self._write()


def open_tensorboard(run: Written, directory: str | os.PathLike[str] | None) -> TensorBoard:
    """Open TensorBoard for a run. By default, its event files are in the run's own directory."""
    own = Path(run.info.run_dir) / "tensorboard" if run.info.run_dir else None
    return _opened(lambda root: lambda: [(run, root)], directory or own)


def open_with_runs(runs: Callable[[], Iterable[Written]], directory: str | os.PathLike[str] | None) -> TensorBoard:
    """Open TensorBoard for the runs that ``runs()`` returns, now and later, each in a directory (``folder_of``)."""
    return _opened(lambda root: lambda: [(run, root / folder_of(run.info)) for run in runs()], directory)


def folder_of(info: RunInfo) -> str:
    """Return the name of a run's directory: the run's name, which TensorBoard shows, and its id."""
    name = re.sub(r"[^\w.-]+", "_", info.name)
    return f"{name[:60]}-{info.id}"


def _opened(
    runs: Callable[[Path], Callable[[], Iterable[tuple[Written, Path]]]], directory: str | os.PathLike[str] | None
) -> TensorBoard:
    needed()
    temporary = None if directory else tempfile.mkdtemp(prefix="dtf-runs-")
    root = Path(directory or str(temporary)).expanduser()
    follower = Follower(runs(root))
    try:
        return TensorBoard(str(root), temporary=temporary, at_close=follower.close)
    except BaseException:
        follower.close()
        raise


def needed() -> None:
    """Raise Unavailable if TensorBoard is not installed."""
    if not TensorBoard.is_installed():
        raise Unavailable("TensorBoard is not installed: pip install tensorboard. The run's own plots work without it")
