"""Waits for a run in the foreground while showing it, with a way to detach from the run or to stop it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import wait

from ..schema.events import Note
from . import display_hooks, terminal
from .following import Follower
from .progress import note_line
from .run import Run

SECOND_INTERRUPT_S = 2.0
_WARNINGS_PERIOD_S = 0.5
_MOMENT_S = 0.5
LAST_WORD_S = 10.0
"""How long to wait, after a run has ended, for its notifications to be delivered, in seconds."""


class Detached(KeyboardInterrupt):
    """Waiting for a run was interrupted. The message gives the state of the run."""

    def _render_traceback_(self) -> list[str]:
        """Return the line that IPython shows instead of the traceback of the waiting code."""
        return [f"KeyboardInterrupt: {self}"]


def show_until_end(run: Run) -> None:
    """Show the run and wait until it has ended, successfully or not. Raises KeyboardInterrupt if interrupted."""
    with display_hooks.here().followed(run) as tell:
        wait_in_foreground(run, tell)
    if run.told is not None:
        run.told.join(LAST_WORD_S)


def show_until_sent(run: Run) -> None:
    """Wait until the run's program and data have been sent, showing the progress if it takes longer than a moment.

    Until then, the caller must not change the arrays. If interrupted, stop the run, which cannot continue without its
    data, and raise KeyboardInterrupt.
    """
    if run.sent is None:
        return
    try:
        wait([run.sent], _MOMENT_S)
        if not run.sent.done():
            with display_hooks.here().sending_shown(run):
                wait([run.sent])
    except KeyboardInterrupt:
        raise _stopped_while_sent(run, say) from None


def _stopped_while_sent(run: Run, tell: Callable[[str], None]) -> Detached:
    stop_in_foreground(run, tell, "Stopping the run: not all of its data has been sent.")
    return Detached(f"the run {run.info.name} ({run.id}) is {run.status}: not all of its data had been sent")


def warnings_told(run: Run, tell: Callable[[str], None]) -> Follower:
    """Return a context manager that reports the run's warnings as they arrive."""

    def draw() -> None:
        for event in follower.new_events():
            if isinstance(event, Note) and event.level == "warning":
                tell(note_line(event))

    follower = Follower(run, draw, _WARNINGS_PERIOD_S)
    return follower


def wait_in_foreground(run: Run, tell: Callable[[str], None]) -> None:
    """Wait until the run has ended. A first interrupt detaches from the run, a second one soon after stops it.

    Raises KeyboardInterrupt after either.
    """
    try:
        run.wait()
    except KeyboardInterrupt:
        if run.is_being_sent:  # the run cannot continue without this process
            raise _stopped_while_sent(run, tell) from None
    else:
        return
    tell(f"Interrupted: interrupt again within {SECOND_INTERRUPT_S:g} s to stop the run.")
    deadline = time.monotonic() + SECOND_INTERRUPT_S
    try:
        run.wait(max(0.0, deadline - time.monotonic()))
    except TimeoutError:
        raise Detached(
            f"detached; the run continues as long as its cluster is running. Return to it with dtf.run({run.id!r}), "
            f"or stop it with dtf.run({run.id!r}).stop()"
        ) from None
    except KeyboardInterrupt:
        stop_in_foreground(run, tell, "Stopping the run.")
    raise Detached(f"the run {run.info.name} ({run.id}) is {run.status}") from None


def stop_in_foreground(run: Run, tell: Callable[[str], None], text: str) -> None:
    """Print ``text``, stop the run and wait until it has ended; another interrupt ends it immediately."""
    try:
        tell(text)
        run.stop()
        run.wait()
    except KeyboardInterrupt:
        run.stop(now=True)
        run.wait()


def say(text: str) -> None:
    """Print a line for the waiting user on standard error, separate from the output of programs."""
    terminal.write(sys.stderr, text + "\n")
