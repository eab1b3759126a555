"""Where a run's checkpoints are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ....schema.checkpoint import Checkpoint


def directory_of(policy: Checkpoint, ctx: Any) -> Path:
    """The directory of a run's checkpoints. It need not be there."""
    if policy.directory is None:
        return Path(ctx.run_dir) / "checkpoints"
    return Path(policy.directory) / str(ctx.run_id)
