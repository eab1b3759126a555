"""``Run.profile``: traces steps of a run while it is running, on request."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import Conflict
from ..schema.run import RunInfo, RunState
from ..schema.trace import check_count
from .session import Session


def ask(session: Session, run_id: str, steps: int) -> int:
    """Request a trace of the next steps of a run. Return the number of this profile. Raises InvalidInput, Conflict."""
    steps = check_count(steps)
    return session.call(lambda fleet: fleet.profile_run(run_id, steps))


def wait(
    wait_for: Callable[[Callable[[RunInfo], bool], float | None], RunInfo], number: int, timeout_s: float | None
) -> None:
    """Wait with the run's ``wait_for`` until a profile is complete.

    Raises Conflict if the profile has no trace, and TimeoutError, with a message that explains how to get the trace.
    """
    seen: list[RunInfo] = []

    def is_over(info: RunInfo) -> bool:
        seen[:] = [info]
        return info.state.is_final or info.state is RunState.PAUSED or _is_done(info, number)

    try:
        info = wait_for(is_over, timeout_s)
    except TimeoutError:
        raise TimeoutError(_why(seen[0], timeout_s)) from None
    profile = info.profile
    if profile is not None and profile.number > number:
        raise Conflict(f"Another profile of the run {info.id} was requested before this one had started")
    if profile is None or not profile.done:
        raise Conflict(f"No step of the run {info.id} was traced before its state became {info.state.value}")
    if profile.message:
        raise Conflict(f"No step of the run {info.id} was traced: {profile.message}")


def _is_done(info: RunInfo, number: int) -> bool:
    profile = info.profile
    return profile is not None and (profile.number > number or (profile.number == number and profile.done))


def _why(info: RunInfo, timeout_s: float | None) -> str:
    head = f"The run {info.id} was not traced within {timeout_s:g} s"
    if info.kind == "fit":
        return f"{head}: its tasks write a trace after their next steps, and run.timeline() returns it then"
    return (
        f"{head}: a program that is profiled must mark its steps, with ctx.traced(step) or dtf.traced(step), or call "
        "Session.run. It is traced as soon as it does so, and run.timeline() returns the trace then"
    )
