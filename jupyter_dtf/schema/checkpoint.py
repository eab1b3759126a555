"""Checkpoints: the policy for writing and keeping them, their description, and the manifest stored with their data.

A checkpoint is a directory named after its step. It is written under a temporary name and then renamed, so it is either
complete or does not exist.
"""

from __future__ import annotations

import math
import re
from pathlib import PurePath
from typing import Any

from ..errors import InvalidInput
from .arguments import check_integer, is_number, make_plain
from .base import PeerStruct, Struct
from .metrics import direction
from .printable import check_word

MANIFEST = "manifest.json"
FORMAT = 1
"""The version of the format of the manifest and the data. Checkpoints in a newer format are rejected."""
_URL = re.compile(r"[a-z][a-z0-9+.-]*://.", re.ASCII)


class Checkpoint(Struct):
    """When checkpoints are written, which are kept, and where.

    By default, a checkpoint is written after an epoch unless that would noticeably slow training down, and the newest
    three are kept. The ``every_`` options can be combined.

    Raises:
        InvalidInput: If a value is invalid.

    Example:
        >>> cluster.fit(model, x, y, checkpoint=dtf.Checkpoint(every_steps=100, keep=5, best="val_loss"))
    """

    every_steps: int | None = None
    """Write a checkpoint after every ``every_steps`` steps."""
    every_seconds: float | None = None
    """Write a checkpoint at the end of a step if this many seconds have passed since the previous one was started."""
    every_epochs: int | None = None
    """Write a checkpoint after every ``every_epochs`` epochs."""
    keep: int = 3
    """The number of newest checkpoints to keep."""
    best: str | None = None
    """A metric at the end of an epoch, such as ``val_loss``: the checkpoint with its best value is kept as well. The
    largest value is the best for metrics named like scores (accuracy, AUC, reward), the smallest for all others.
    """
    directory: str | None = None
    """An absolute path, or a URL that fsspec or ``tf.io.gfile`` supports (``s3://bucket/name``), below which a
    directory for the run is created. None: the run's own directory.
    """

    def __post_init__(self) -> None:
        make_plain(self)
        for name in ("every_steps", "every_epochs", "keep"):
            value = getattr(self, name)
            if value is not None or name == "keep":
                check_integer(value, name, 1)
        seconds = self.every_seconds
        if seconds is not None and (not is_number(seconds) or not 0 < seconds < math.inf):
            raise InvalidInput(f"`every_seconds` must be a number > 0, got {seconds!r:.100}", field="every_seconds")
        if self.best is not None:
            if not isinstance(self.best, str) or not self.best:
                raise InvalidInput(
                    f"`best` must be the name of a metric, such as val_loss, got {self.best!r:.100}",
                    field="best",
                )
            check_word(self.best, "best")
        if self.directory is not None:
            self._check_directory()

    def _check_directory(self) -> None:
        if isinstance(self.directory, PurePath):
            self.directory = str(self.directory)
        where = self.directory
        if not isinstance(where, str) or not (where.startswith("/") or _URL.match(where)):
            raise InvalidInput(
                f"`directory` must be an absolute path, or a URL for fsspec or tf.io.gfile, got {where!r:.200}",
                field="directory",
            )
        check_word(where, "directory")

    @property
    def after_epochs(self) -> int | None:
        """The number of epochs between checkpoints, 1 by default; None if checkpoints do not depend on epochs."""
        is_default = self.every_steps is None and self.every_seconds is None
        return 1 if is_default and self.every_epochs is None else self.every_epochs

    def is_better(self, value: float, than: float) -> bool:
        """Return whether a value of the metric ``best`` is better than another one.

        Larger values are better if the metric's name indicates so (``metrics.direction``), as ``val_accuracy`` does;
        otherwise, smaller values are better.
        """
        return value > than if direction(self.best or "") > 0 else value < than


class CheckpointInfo(PeerStruct):
    """One complete checkpoint."""

    step: int
    """The number of completed steps, over all epochs."""
    epoch: int
    """The epoch in which training continues, counted from 0."""
    step_in_epoch: int = 0
    """The number of completed steps of that epoch."""
    time: float = 0.0
    """The time at which the values were captured, in seconds since 1970."""
    bytes: int = 0
    metric: float | None = None
    """The value of the metric ``best`` at the end of the checkpoint's epoch; None if there is none."""
    path: str = ""
    """The checkpoint's directory on the chief's machine."""
    seconds: float = 0.0
    """The time that writing took while the program continued, in seconds; 0 if unknown."""


class FileDigest(PeerStruct):
    """One file of a checkpoint."""

    bytes: int
    sha256: str


class StoredVariable(PeerStruct):
    """One array of a checkpoint, stored under ``key`` in the TensorFlow checkpoint."""

    key: str
    shape: list[int]
    dtype: str


class Manifest(PeerStruct):
    """The manifest that is stored with the data of a checkpoint, as JSON."""

    format: int
    kind: str
    """``fit`` or ``program``."""
    step: int
    epoch: int = 0
    step_in_epoch: int = 0
    time: float = 0.0
    run_id: str = ""
    strategy: str = ""
    tasks: int = 1
    """The number of tasks that shared each step."""
    metric: float | None = None
    variables: list[StoredVariable] = []
    files: dict[str, FileDigest] = {}
    files_in: str = ""
    """The subdirectory of the checkpoint's directory that contains these files; empty: the manifest's own directory. It
    is set in remote storage, for files that replaced those of another checkpoint of the same step."""

    def info(self, path: Any) -> CheckpointInfo:
        """Return the public description of the checkpoint at ``path``."""
        return CheckpointInfo(
            step=self.step,
            epoch=self.epoch,
            step_in_epoch=self.step_in_epoch,
            time=self.time,
            bytes=sum(file.bytes for file in self.files.values()),
            metric=self.metric,
            path=str(path),
        )


def surplus(known: list[CheckpointInfo], policy: Checkpoint) -> list[CheckpointInfo]:
    """Return the checkpoints that ``policy`` does not keep: all except the newest ones and the best."""
    ordered = sorted(known, key=lambda info: info.step)
    kept = {info.step for info in ordered[-policy.keep :]}
    best: CheckpointInfo | None = None
    if policy.best is not None:
        for info in ordered:
            if info.metric is None or math.isnan(info.metric):
                continue
            if best is None or best.metric is None or policy.is_better(info.metric, best.metric):
                best = info
    if best is not None:
        kept.add(best.step)
    return [info for info in ordered if info.step not in kept]
