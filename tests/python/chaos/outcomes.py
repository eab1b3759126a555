"""What docs/recovery.md promises of each round: how its run ends, and what is said of who was lost. Pure.

``TABLE`` is for the moments at which a run goes on by itself; ``promised`` is that, and what a stop makes of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .schedule import TASKS, WITHOUT_CHECKPOINTS, Round

DIED = r"{task} died \(SIGKILL\)"
FROZEN = r"{task} has been stopped \(SIGSTOP\) for [3-9] s, on host \S+"
HOST_GONE = r"\S+ failed: its host \S+ went away"
WARM_GONE = r"\S+ failed: the warm process on \S+ was killed \(SIGKILL\)"
KILLED = r"The cluster \S+ was killed \(SIGKILL\)"
SILENT = r"The cluster \S+ did not answer when its run was stopped, and was ended"


@dataclass(frozen=True)
class Promise:
    """How a run ends. ``loss`` is the title of a warning among its events, ``message`` the run's last word."""

    ends: str
    loss: str = ""
    message: str = ""
    restarts: tuple[int, int] = (0, 0)
    """How often its tasks are started again: at least and at most."""
    needs_stop: bool = False
    """It goes on only if somebody stops it."""
    cluster_lives: bool = True


ONCE = (1, 1)
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
    loss = promise.loss if this.whom in TASKS else ""
    if this.when == "a restart":  # which another's death has begun, and this adds to
        most = promise.restarts[1] + (2 if this.whom == "warm" else 1)  # a frozen one may be found in the middle of it
        return replace(promise, restarts=(int(promise.cluster_lives), most), loss=loss)
    if this.when == "the start" and this.whom in ("warm", "host"):  # it may have had no part in the run yet
        return replace(promise, restarts=(0, 1), loss="")
    return promise


def has_defined_weights(this: Round) -> bool:
    """Whether the weights are those of a training without an interruption."""
    return this.strategy not in WITHOUT_CHECKPOINTS
