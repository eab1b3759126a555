"""Checkpoints: when they are written and which are kept, what is known of one, and what lies beside its data.

A checkpoint is a directory, named by its step, that was written aside and renamed: it is complete or does not exist.
"""

from __future__ import annotations

import math
import re
from typing import Any

from ..errors import InvalidInput
from .base import PeerStruct, Struct
from .printable import check_word

MANIFEST = "manifest.json"
FORMAT = 1
"""Of the manifest and the files beside it. What is newer is refused."""
_URL = re.compile(r"[a-z][a-z0-9+.-]*://.", re.ASCII)
_LARGER_IS_BETTER = ("acc", "auc", "f1", "fbeta", "precision", "recall", "iou")


class Checkpoint(Struct):
    """When checkpoints are written, which are kept, and where. By default the newest three, one after every epoch that
    is long enough for it not to be held up.

    Several ``every_`` go together. Raises InvalidInput, which names the field.
    """

    every_steps: int | None = None
    """After every so many steps."""
    every_seconds: float | None = None
    """At the end of the first step that ends so many seconds after the last one began to be written."""
    every_epochs: int | None = None
    """After every so many epochs."""
    keep: int = 3
    """How many of the newest stay."""
    best: str | None = None
    """The name of a value at the end of an epoch, as ``val_loss``: the best by it stays as well."""
    directory: str | None = None
    """An absolute path of a local directory, or a URL that fsspec or ``tf.io.gfile`` reaches (``s3://bucket/name``), in
    which the run gets one. None: in the run's own.
    """

    def __post_init__(self) -> None:
        for name in ("every_steps", "every_epochs", "keep"):
            value = getattr(self, name)
            if value is None and name != "keep":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InvalidInput(f"{name} is a whole number, 1 or more. Received: {value!r:.100}", field=name)
        seconds = self.every_seconds
        if seconds is not None:
            is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
            if not is_number or not 0 < seconds < math.inf:
                raise InvalidInput(
                    f"every_seconds is a number of seconds above 0. Received: {seconds!r:.100}", field="every_seconds"
                )
        if self.best is not None:
            if not isinstance(self.best, str) or not self.best:
                raise InvalidInput(
                    f"best is the name of a value at the end of an epoch, as val_loss. Received: {self.best!r:.100}",
                    field="best",
                )
            check_word(self.best, "best")
        if self.directory is not None:
            self._check_directory()

    def _check_directory(self) -> None:
        where = self.directory
        if not isinstance(where, str) or not (where.startswith("/") or _URL.match(where)):
            raise InvalidInput(
                "directory is an absolute path, or a URL of a place that fsspec or tf.io.gfile reaches. Received: "
                f"{where!r:.200}",
                field="directory",
            )
        check_word(where, "directory")

    @property
    def after_epochs(self) -> int | None:
        """After how many epochs one is written; 1 where nothing was said."""
        is_default = self.every_steps is None and self.every_seconds is None
        return 1 if is_default and self.every_epochs is None else self.every_epochs

    def is_better(self, value: float, than: float) -> bool:
        """Whether a value of the metric ``best`` is better than another one: larger where its name is that of a score,
        and smaller otherwise.
        """
        larger = any(part in (self.best or "").lower() for part in _LARGER_IS_BETTER)
        return value > than if larger else value < than


class CheckpointInfo(PeerStruct):
    """One complete checkpoint."""

    step: int
    """Steps done, of all epochs."""
    epoch: int
    """The epoch to go on with, counting from 0."""
    step_in_epoch: int = 0
    """Steps of that epoch that are done."""
    time: float = 0.0
    """When its values were taken, in seconds since the epoch."""
    bytes: int = 0
    metric: float | None = None
    """The value of the metric ``best`` at the end of its epoch; None where there is none."""
    path: str = ""
    """Its directory, on the chief's machine."""
    seconds: float = 0.0
    """How long it took to write, while the program went on; 0 where that is not known any more."""


class FileDigest(PeerStruct):
    """One file of a checkpoint."""

    bytes: int
    sha256: str


class StoredVariable(PeerStruct):
    """One array of a checkpoint, under ``key`` in its TensorFlow checkpoint."""

    key: str
    shape: list[int]
    dtype: str


class Manifest(PeerStruct):
    """What lies beside the data of a checkpoint, as JSON."""

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
    """How many shared a step."""
    metric: float | None = None
    variables: list[StoredVariable] = []
    files: dict[str, FileDigest] = {}

    def info(self, path: Any) -> CheckpointInfo:
        """What viewers are told of it, at ``path``."""
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
    """Those that ``policy`` does not keep: all but the newest and the best."""
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
