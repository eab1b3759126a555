"""The location of a run's checkpoints, and the module that handles checkpoints there."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, Union

from ....schema.checkpoint import Checkpoint, CheckpointInfo, Manifest
from . import files, remote
from .shards import Contents

Place = Union[Path, str]
"""A local directory, or the URL of a remote one."""


class Keeping(Protocol):
    """The interface that the modules ``files`` and ``remote`` have in common."""

    def write(self, place: Any, manifest: Manifest, arrays: Contents, state: bytes, /) -> Place: ...

    def known(self, place: Any, /) -> list[CheckpointInfo]: ...

    def remove(self, place: Any, /) -> None: ...

    def clean(self, place: Any, /) -> None: ...

    def newest(self, place: Any, step: int | None = None, /) -> files.Stored: ...


def directory_of(policy: Checkpoint, ctx: Any) -> Place:
    """Return the directory of a run's checkpoints, which need not exist. Raises InvalidInput if it is a URL that is not
    supported here.
    """
    if policy.directory is None:
        return Path(ctx.run_dir) / "checkpoints"
    if remote.is_url(policy.directory):
        remote.check(policy.directory)
        return f"{policy.directory.rstrip('/')}/{ctx.run_id}"
    return Path(policy.directory) / str(ctx.run_id)


def place_of(text: str) -> Place:
    """Return the ``Place`` for a path or URL."""
    return text.rstrip("/") if remote.is_url(text) else Path(text)


def at(place: Place) -> Keeping:
    """Return the module that handles checkpoints at ``place``: ``files`` or ``remote``."""
    return files if isinstance(place, Path) else remote
