"""Waiting for a run in the foreground, with something to see, and a way to leave it or to stop it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import wait

from ..schema.events import Note
from . import surroundings, terminal
from .following import Follower
from .progress import note_line
from .run import Run

SECOND_INTERRUPT_S = 2.0
_WARNINGS_PERIOD_S = 0.5
_MOMENT_S = 0.5
LAST_WORD_S = 10.0
"""So long a run that has ended waits for what was to be called for it."""


class Detached(KeyboardInterrupt):
    """The wait for a run was interrupted. The message says what became of the run."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows instead of the frames that were waiting."""
        return [f"KeyboardInterrupt: {self}"]


def show_until_end(run: Run) -> None:
    """Show the run and wait until it has ended, however it ended. Raises KeyboardInterrupt when it is interrupted."""
    with surroundings.here().followed(run) as tell:
        wait_in_foreground(run, tell)
    if run.told is not None:
        run.told.join(LAST_WORD_S)


def show_until_sent(run: Run) -> None:
    """Wait until the run's program and data have been sent, and show that if it takes longer than a moment.

    They are the caller's arrays, which may be changed afterwards. Raises KeyboardInterrupt when it is interrupted, and
    stops the run, which cannot go on without them.
    """
    if run.sent is None:
        return
    try:
        wait([run.sent], _MOMENT_S)
        if not run.sent.done():
            with surroundings.here().sending_shown(run):
                wait([run.sent])
    except KeyboardInterrupt:
        raise _stopped_while_sent(run, say) from None


def _stopped_while_sent(run: Run, tell: Callable[[str], None]) -> Detached:
    stop_in_foreground(run, tell, "Stopping the run: not all of its data has been sent.")
    return Detached(f"the run {run.info.name} ({run.id}) is {run.status}: not all of its data had been sent")


def warnings_told(run: Run, tell: Callable[[str], None]) -> Follower:
    """A context in which what the run warns of is told as it comes."""

    def draw() -> None:
        for event in follower.new_events():
            if isinstance(event, Note) and event.level == "warning":
                tell(note_line(event))

    follower = Follower(run, draw, _WARNINGS_PERIOD_S)
    return follower


def wait_in_foreground(run: Run, tell: Callable[[str], None]) -> None:
    """Wait for the end. The first interrupt leaves the run to itself, a second one soon after stops it.

    Raises KeyboardInterrupt after either.
    """
    try:
        run.wait()
    except KeyboardInterrupt:
        if run.is_being_sent:  # it cannot be left to itself
            raise _stopped_while_sent(run, tell) from None
    else:
        return
    tell(f"Interrupted: again within {SECOND_INTERRUPT_S:g} s stops the run.")
    deadline = time.monotonic() + SECOND_INTERRUPT_S
    try:
        run.wait(max(0.0, deadline - time.monotonic()))
    except TimeoutError:
        raise Detached(
            f"detached; the run goes on while its cluster does. Come back with dtf.run({run.id!r}), "
            f"stop it with dtf.run({run.id!r}).stop()"
        ) from None
    except KeyboardInterrupt:
        stop_in_foreground(run, tell, "Stopping the run.")
    raise Detached(f"the run {run.info.name} ({run.id}) is {run.status}") from None


def stop_in_foreground(run: Run, tell: Callable[[str], None], text: str) -> None:
    """Say ``text``, stop the run and wait for its end; another interrupt, however soon, ends it at once."""
    try:
        tell(text)
        run.stop()
        run.wait()
    except KeyboardInterrupt:
        run.stop(now=True)
        run.wait()


def say(text: str) -> None:
    """A line for the person who waits, beside the output of programs."""
    terminal.write(sys.stderr, text + "\n")
