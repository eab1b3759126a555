"""Resolves the argument ``resume`` (a run, its id, a checkpoint or a path) to the path that is passed to the tasks."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from ..backend.task.checkpoint import files
from ..backend.viewer.resuming import checkpoint_path
from ..errors import DtfError, InvalidInput, NotFound
from ..schema.checkpoint import MANIFEST, CheckpointInfo
from .run import Run

_RULE = "`resume` must be a run, its id, or the path of a checkpoint"


def path_of(resume: Any, step: int | None = None) -> str:
    """Return the path of the checkpoint that ``resume`` stands for.

    For a run or its id, this is the run's checkpoint at ``step`` or, without a step, the directory of all its
    checkpoints.

    Tasks read the newest complete checkpoint in a directory. Raises NotFound and InvalidInput.
    """
    if isinstance(resume, CheckpointInfo):
        return resume.path
    if isinstance(resume, Run):
        return _of_run(resume, step)
    if not isinstance(resume, (str, os.PathLike)):
        raise InvalidInput(f"{_RULE}, got {resume!r:.200}", field="resume")
    if isinstance(resume, str) and "://" in resume:
        return resume
    path = Path(resume).expanduser().absolute()
    if isinstance(resume, str) and os.sep not in resume and not path.exists():
        try:
            return _of_run(_known(resume), step)
        except NotFound as error:
            raise NotFound(f"{_RULE}, got {resume!r}: {error}") from None
    if not path.exists():
        return str(path)  # it may exist on the tasks' machines
    if (path / MANIFEST).exists():
        files.read_manifest(path)
        return str(path)
    if not files.known(path):
        raise NotFound(f"{_RULE}, got {path}, which has no complete checkpoint")
    return str(path)


def newest_of(run: Run) -> str:
    """Return the path of a run's newest checkpoint, or of the directory of all its checkpoints. Raises NotFound.

    Unless the checkpoints are at a URL, the files are read instead of the events, because a cluster may have died after
    writing a checkpoint and before recording it.
    """
    known = run.checkpoints
    if known and "://" in known[-1].path:
        return known[-1].path
    return checkpoint_path(run._session.hub, run.info, None)


def run_of(resume: Any) -> str:
    """Return the id of the run that ``resume`` is, or that wrote the checkpoint; empty if unknown."""
    if isinstance(resume, Run):
        return resume.id
    path = Path(path_of(resume))
    with contextlib.suppress(DtfError, OSError):
        if not (path / MANIFEST).exists() and (known := files.known(path)):
            path = Path(known[-1].path)
        return files.read_manifest(path).run_id
    return ""


def _known(run_id: str) -> Run:
    run = Run(run_id)
    run.info  # noqa: B018 - raises NotFound
    return run


def _of_run(run: Run, step: int | None) -> str:
    known = run.checkpoints
    if not known:
        raise NotFound(f"The run {run.id} has no checkpoint")
    if step is None:
        return known[-1].path.rpartition("/")[0]
    for info in known:
        if info.step == step:
            return info.path
    steps = ", ".join(str(info.step) for info in known)
    raise NotFound(f"`step` must be one of {steps}, the checkpoints of the run {run.id}, got {step!r:.100}")
