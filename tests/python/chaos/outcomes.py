"""What docs/recovery.md promises of each round: how its run ends, and what is said of who was lost. Pure.

``TABLE`` is for the moments at which a run goes on by itself; ``promised`` is that, and what a stop makes of it.
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
SILENT = r"The cluster \S+ did not answer when its run was stopped, and was killed"


@dataclass(frozen=True)
class Promise:
    """How a run ends. ``loss`` is the title of a warning among its events, ``message`` the run's last word."""

    ends: str
    loss: str = ""
    message: str = ""
    restarts: tuple[int, int] = (0, 0)
    """How often all that were lost are started again: at least and at most."""
    alone: tuple[int, int] = (0, 0)
    """How often one task is, while the run goes on."""
    needs_stop: bool = False
    """It goes on only if somebody stops it."""
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
    ("host", "freeze"): Promise("stopped", r"Host \S+ does not answer", needs_stop=True),
    ("host", "pause"): GOES_ON,
    ("host", "notice"): Promise("succeeded", TO_GO, restarts=PERHAPS),  # the run may be over before it goes
    ("cluster", "kill"): Promise("lost", message=KILLED, cluster_lives=False),
    ("cluster", "freeze"): Promise("lost", message=SILENT, needs_stop=True, cluster_lives=False),
    ("cluster", "pause"): GOES_ON,
    ("client", "kill"): GOES_ON,
    ("client", "freeze"): GOES_ON,
    ("client", "pause"): GOES_ON,
    ("run", "stop"): Promise("stopped"),
}


def promised(this: Round) -> Promise:
    """How the run of a round ends."""
    promise = TABLE["task" if this.whom in TASKS else this.whom, this.what]
    if this.when == "a stop" and promise.cluster_lives:
        return Promise("stopped")
    loss = promise.loss if this.whom in TASKS or this.what == "notice" else ""
    if this.strategy in APART and promise.restarts[1] and this.whom in ("host", "warm"):
        promise = replace(promise, alone=PERHAPS)  # of several tasks a worker may be missed first
    if (this.what, this.when) == ("notice", "a restart"):  # the host may have no tasks then, and just ends
        return replace(promise, restarts=(1, promise.restarts[1] + 1), loss="")
    if this.strategy in APART and this.whom == "worker" and promise.restarts == ONCE:
        if this.when in ("a step", "the last step"):
            return replace(promise, restarts=(0, 0), alone=ONCE)
        least = int(this.when == "a restart")  # the run may be there already, or again
        return replace(promise, restarts=(least, 1 + least), alone=PERHAPS)
    if this.when == "a restart":  # which another's death has begun, and this adds to
        most = promise.restarts[1] + (2 if this.whom == "warm" else 1)  # a frozen one may be found in the middle of it
        return replace(promise, restarts=(int(promise.cluster_lives), most), loss=loss)
    if this.when == "the start" and this.whom in ("warm", "host"):  # it may have had no part in the run yet
        return replace(promise, restarts=PERHAPS, loss="")
    return promise


def has_defined_weights(this: Round) -> bool:
    """Whether the weights are those of a training without an interruption."""
    return this.strategy not in APART
