"""What docs/recovery.md promises for each round: how its run ends, and which warnings and messages it has. Pure.

``TABLE`` is for moments at which the run is not disturbed in any other way. ``promised`` also takes the other moments
into account, such as a restart or a stop.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .schedule import APART, TASKS, Round

DIED = r"{task} died \(SIGKILL\)"
FROZEN = r"{task} has been stopped \(SIGSTOP\) for [3-9] s, on host \S+"
HOST_GONE = r"\S+ failed: its host \S+ went away"
WARM_GONE = r"\S+ failed: the warm process on \S+ was killed \(SIGKILL\)"
TO_GO = r"Host \S+ is going away \(SIGTERM\)"
KILLED = r"The cluster \S+ was killed \(SIGKILL\)"
SILENT = r"The cluster \S+ did not respond when its run was stopped, and was killed"


@dataclass(frozen=True)
class Promise:
    """How a run ends. ``loss`` is a pattern for the title of a warning among its events, ``message`` one for its final
    message.
    """

    ends: str
    loss: str = ""
    message: str = ""
    restarts: tuple[int, int] = (0, 0)
    """How often all tasks that were lost are restarted: the minimum and the maximum."""
    alone: tuple[int, int] = (0, 0)
    """How often a single task is restarted while the run continues: the minimum and the maximum."""
    needs_stop: bool = False
    """Whether the run ends only if somebody stops it."""
    cluster_lives: bool = True


ONCE = (1, 1)
PERHAPS = (0, 1)
GOES_ON = Promise("succeeded")
TABLE: dict[tuple[str, str], Promise] = {
    ("task", "kill"): Promise("succeeded", DIED, restarts=ONCE),
    ("task", "freeze"): Promise("succeeded", FROZEN, restarts=ONCE),
    ("task", "pause"): GOES_ON,
    ("warm", "kill"): Promise("succeeded", WARM_GONE, restarts=ONCE),
    ("warm", "freeze"): GOES_ON,
    ("warm", "pause"): GOES_ON,
    ("host", "kill"): Promise("succeeded", HOST_GONE, restarts=ONCE),
    ("host", "freeze"): Promise("stopped", r"Host \S+ does not respond", needs_stop=True),
    ("host", "pause"): GOES_ON,
    ("host", "notice"): Promise("succeeded", TO_GO, restarts=PERHAPS),  # the run may end before the host does
    ("cluster", "kill"): Promise("lost", message=KILLED, cluster_lives=False),
    ("cluster", "freeze"): Promise("lost", message=SILENT, needs_stop=True, cluster_lives=False),
    ("cluster", "pause"): GOES_ON,
    ("client", "kill"): GOES_ON,
    ("client", "freeze"): GOES_ON,
    ("client", "pause"): GOES_ON,
    ("run", "stop"): Promise("stopped"),
}


def promised(this: Round) -> Promise:
    """Return how the run of a round has to end."""
    promise = TABLE["task" if this.whom in TASKS else this.whom, this.what]
    if this.when == "a stop" and promise.cluster_lives:
        return Promise("stopped")
    loss = promise.loss if this.whom in TASKS or this.what == "notice" else ""
    if this.strategy in APART and promise.restarts[1] and this.whom in ("host", "warm"):
        promise = replace(promise, alone=PERHAPS)  # if several tasks are lost, a worker may be missed first
    if (this.what, this.when) == ("notice", "a restart"):  # a host without tasks ends
        return replace(promise, restarts=(1, promise.restarts[1] + 1), loss="")
    if this.strategy in APART and this.whom == "worker" and promise.restarts == ONCE:
        if this.when in ("a step", "the last step"):
            return replace(promise, restarts=(0, 0), alone=ONCE)
        least = int(this.when == "a restart")  # the run may already be running, or running again
        return replace(promise, restarts=(least, 1 + least), alone=PERHAPS)
    if this.when == "a restart":  # another task's death has caused the restart; this is a second loss
        most = promise.restarts[1] + (2 if this.whom == "warm" else 1)  # a frozen one may be detected only then
        return replace(promise, restarts=(int(promise.cluster_lives), most), loss=loss)
    if this.when == "the start" and this.whom in ("warm", "host"):  # the process may not have been part of the run yet
        return replace(promise, restarts=PERHAPS, loss="")
    return promise


def has_defined_weights(this: Round) -> bool:
    """Return whether the weights have to be those of an undisturbed run."""
    return this.strategy not in APART
