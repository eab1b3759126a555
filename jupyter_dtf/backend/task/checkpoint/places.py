"""Where a run's checkpoints are, and whether it begins again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ....schema.checkpoint import Checkpoint


def directory_of(policy: Checkpoint, ctx: Any) -> Path:
    """The directory of a run's checkpoints. It need not be there."""
    if policy.directory is None:
        return Path(ctx.run_dir) / "checkpoints"
    return Path(policy.directory) / str(ctx.run_id)


def begins_again(ctx: Any) -> bool:
    """Whether this is a later attempt of the run, which counts its attempts from 1."""
    return int(getattr(ctx, "attempt", 1)) > 1
