"""Continues a run from its checkpoints as a new run, on any cluster and from any process that knows the run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ...errors import Conflict, InvalidInput, NotFound
from ...schema import run_names
from ...schema.api import ClusterInfo, ClusterState
from ...schema.checkpoint import MANIFEST
from ...schema.events import checkpoints_of
from ...schema.payload import Packed
from ...schema.run import RunInfo, RunRequest
from ...schema.sizes import bytes_
from ..records import submission_files
from ..records.hub import Hub

CHECKPOINTS = "checkpoints"
"""The name of the directory of checkpoints in a run's directory."""


@dataclass(frozen=True)
class Resumption:
    """A new run that continues another one from a checkpoint."""

    was: RunInfo
    """The run to continue."""
    request: RunRequest
    program: Packed
    submission: submission_files.Submission
    """The submission of the run to continue."""

    def keep_for(self, new: RunInfo) -> None:
        """Save the submission for the new run too, so that the new run can be continued in turn."""
        submission_files.keep_again(self.submission, Path(self.was.run_dir), Path(new.run_dir), self.request)


def prepared(hub: Hub, run_id: str, step: int | None) -> Resumption:
    """Return a new run that continues another one, ready to be submitted.

    Args:
        hub: The known runs.
        run_id: The run to continue.
        step: The step of the checkpoint, or None for the newest.

    Raises:
        NotFound: If there is no such run or checkpoint.
        Conflict: If the run cannot be continued from here; the message says why.
    """
    was = hub.info(run_id)
    submission, program, path = what_is_kept(hub, was, step)
    request = msgspec.structs.replace(
        submission.request,
        name=run_names.again(was.name, (info.name for info in hub.runs())),
        jobs=dict(was.jobs),
        resume=path,
        resumed_from=was.id,
    )
    return Resumption(was, request, program, submission)


def what_is_kept(hub: Hub, was: RunInfo, step: int | None) -> tuple[submission_files.Submission, Packed, str]:
    """Return a run's submission, its program, and the path of the checkpoint.

    Args:
        hub: The known runs.
        was: The run to continue.
        step: The step of the checkpoint; None returns the directory of all checkpoints.

    Raises:
        NotFound: If there is no such checkpoint.
        Conflict: If the run cannot be continued from here; the message says why.
    """
    check_goes_on(was)
    path = checkpoint_path(hub, was, step)
    try:
        found, program = submission_files.read(Path(was.run_dir))
    except (NotFound, InvalidInput) as error:
        raise Conflict(f"The model and the data of the run {was.id} are not kept: {error}. {_else(was)}") from None
    if found.left_out_bytes:
        raise Conflict(
            f"The model of the run {was.id} is kept, but not its data: together they take "
            f"{bytes_(found.left_out_bytes)}, and at most {bytes_(submission_files.MOST_BYTES)} are kept. {_else(was)}"
        )
    return found, program, path


def check_goes_on(was: RunInfo) -> None:
    """Raise Conflict, with the reason, if a run can never be continued."""
    if was.kind != "fit":
        raise Conflict(
            f"Only training can be resumed, because its checkpoints contain all of its state. {was.id} is "
            f"a {was.kind}: start it again with what it has saved"
        )
    if not was.goes_on:
        raise Conflict(f"{was.id} cannot be resumed: it ran with checkpoint=False, so it has written no checkpoints")


def checkpoint_path(hub: Hub, was: RunInfo, step: int | None) -> str:
    """Return the path of a run's checkpoint.

    Both events and files are consulted, because a checkpoint exists without an event if the cluster died before
    recording it.

    Args:
        hub: The known runs.
        was: The run.
        step: The step of the checkpoint. None returns the directory of all checkpoints; the newest complete one in it
            will be read.

    Raises:
        NotFound: If there is no such checkpoint.
    """
    known = checkpoints_of(event for _seq, event in hub.events(was.id))
    directory = Path(known[-1].path).parent if known else Path(was.run_dir) / CHECKPOINTS
    steps = sorted({info.step for info in known} | _steps_in(directory))
    if not steps:
        raise NotFound(f"The run {was.id} has no checkpoint")
    if step is None:
        return str(directory)
    if step not in steps:
        told = ", ".join(map(str, steps))
        raise NotFound(f"`step` must be the step of a checkpoint of the run {was.id} ({told}), got {step!r:.100}")
    return str(directory / str(step))


def _steps_in(directory: Path) -> set[int]:
    with contextlib.suppress(OSError):
        return {int(path.parent.name) for path in directory.glob(f"[0-9]*/{MANIFEST}") if path.parent.name.isdecimal()}
    return set()


def own_cluster(was: RunInfo, clusters: Iterable[ClusterInfo]) -> str:
    """Return the name of the run's cluster if a cluster with that name is running or starting.

    Raises Conflict otherwise.
    """
    there = [info.name for info in clusters if info.state in (ClusterState.STARTING, ClusterState.RUNNING)]
    if was.cluster not in there:
        others = f"Clusters that are running: {', '.join(there)}" if there else "No cluster is running: start one"
        raise Conflict(f"The cluster {was.cluster} of the run {was.id} is gone, so name another one. {others}")
    return was.cluster


def _else(was: RunInfo) -> str:
    return f"If you have both: cluster.fit(model, x, y, ..., resume={was.id!r})"
