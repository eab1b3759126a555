"""Runs in TensorBoard. It is imported here when it is asked for."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import Unavailable
from .tensorboard_process import TensorBoard

if TYPE_CHECKING:
    import pandas as pd

EVENT_FILE = "events.out.tfevents."
"""How the names of event files begin."""


def write_log_directory(metrics: pd.DataFrame, directory: str | os.PathLike[str]) -> Path:
    """Write all points of ``Run.metrics`` as event files, a directory for each task, in place of those there were."""
    needed()
    from tensorboard.compat.proto import event_pb2, summary_pb2
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    root = Path(directory).expanduser()
    for task, points in metrics.groupby("task", sort=False):
        own = root / str(task).replace(":", "_")
        for old in own.glob(f"{EVENT_FILE}*"):
            old.unlink()
        writer = EventFileWriter(str(own))
        for (step, seconds), values in points.sort_values(["step", "time"]).groupby(["step", "time"], sort=False):
            pairs = zip(values["metric"], values["value"], strict=True)
            shown = [summary_pb2.Summary.Value(tag=metric, simple_value=value) for metric, value in pairs]
            summary = summary_pb2.Summary(value=shown)
            writer.add_event(event_pb2.Event(wall_time=seconds, step=int(step), summary=summary))
        writer.close()
    root.mkdir(parents=True, exist_ok=True)
    return root


def open_tensorboard(metrics: pd.DataFrame, run_dir: str, directory: str | os.PathLike[str] | None) -> TensorBoard:
    """TensorBoard on what ``write_log_directory`` has written: by default into the run's own directory."""
    needed()
    own = Path(run_dir) / "tensorboard" if run_dir else None
    temporary = None if directory or own else tempfile.mkdtemp(prefix="dtf-run-")
    written = write_log_directory(metrics, directory or own or str(temporary))
    return TensorBoard(str(written), temporary=temporary)


def needed() -> None:
    if not TensorBoard.is_installed():
        raise Unavailable("TensorBoard is not installed: pip install tensorboard. The run's own plots need nothing")
