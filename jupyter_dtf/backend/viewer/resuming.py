"""Going on with a run from its checkpoints, in any process that has found it: as a new run, on any cluster."""

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
from ..records import submitted
from ..records.hub import Hub

CHECKPOINTS = "checkpoints"
"""In a run's directory."""


@dataclass(frozen=True)
class Resumption:
    """A run that is to go on from a checkpoint of another one."""

    was: RunInfo
    """The other one."""
    request: RunRequest
    program: Packed
    submission: submitted.Submission
    """What the other one was submitted with."""

    def keep_for(self, new: RunInfo) -> None:
        """Keep what it was submitted with for the new run, which others may go on from in their turn."""
        submitted.keep_again(self.submission, Path(self.was.run_dir), Path(new.run_dir), self.request)


def prepared(hub: Hub, run_id: str, step: int | None) -> Resumption:
    """What is to be submitted for a run to go on from the newest checkpoint of another one, or from that of ``step``.

    Raises NotFound and Conflict, which say why one cannot go on with it from here.
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


def what_is_kept(hub: Hub, was: RunInfo, step: int | None) -> tuple[submitted.Submission, Packed, str]:
    """What a run was submitted with, and the path of its checkpoint of ``step``, or of the directory of all of them.

    Raises NotFound and Conflict, which say why one cannot go on with it from here.
    """
    check_goes_on(was)
    path = checkpoint_path(hub, was, step)
    try:
        found, program = submitted.read(Path(was.run_dir))
    except (NotFound, InvalidInput) as error:
        raise Conflict(f"The model and the data of the run {was.id} are not kept: {error}. {_else(was)}") from None
    if found.left_out_bytes:
        raise Conflict(
            f"Of the run {was.id} the model is kept, and not the data: with them it is {bytes_(found.left_out_bytes)}, "
            f"and {bytes_(submitted.MOST_BYTES)} are kept at most. {_else(was)}"
        )
    return found, program, path


def check_goes_on(was: RunInfo) -> None:
    """Raise Conflict for a run that nobody can go on with, and say why."""
    if was.kind != "fit":
        raise Conflict(
            f"One goes on with a training, whose checkpoints say all of it. Received: {was.id}, a {was.kind}; start it "
            "again, with what it has saved"
        )
    if not was.goes_on:
        raise Conflict(
            "One goes on with a training that writes checkpoints, which those with checkpoint=False do not. Received: "
            f"{was.id}"
        )


def checkpoint_path(hub: Hub, was: RunInfo, step: int | None) -> str:
    """The path of a run's checkpoint of ``step``, or of the directory of them all, whose newest whole one is read.

    The files know more than the events where the cluster has died between the two. Raises NotFound.
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
        raise NotFound(f"The run {was.id} has checkpoints of the steps {told}. Received: step={step!r:.100}")
    return str(directory / str(step))


def _steps_in(directory: Path) -> set[int]:
    with contextlib.suppress(OSError):
        return {int(path.parent.name) for path in directory.glob(f"[0-9]*/{MANIFEST}") if path.parent.name.isdecimal()}
    return set()


def own_cluster(was: RunInfo, clusters: Iterable[ClusterInfo]) -> str:
    """The cluster that a run was on, or one of its name. Raises Conflict where there is none."""
    there = [info.name for info in clusters if info.state in (ClusterState.STARTING, ClusterState.RUNNING)]
    if was.cluster not in there:
        others = f"There are: {', '.join(there)}" if there else "There is none: start one"
        raise Conflict(f"The cluster {was.cluster} of the run {was.id} is gone, so name another one. {others}")
    return was.cluster


def _else(was: RunInfo) -> str:
    return f"Where both are at hand: cluster.fit(model, x, y, ..., resume={was.id!r})"
