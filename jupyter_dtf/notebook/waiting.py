"""Waiting for a run in the foreground, with something to see, and a way to leave it or to stop it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from ..schema.events import Note
from .following import Follower
from .progress import note_line
from .run import Run

SECOND_INTERRUPT_S = 2.0
_WARNINGS_PERIOD_S = 0.5


class Detached(KeyboardInterrupt):
    """The wait for a run was interrupted. The message says what became of the run."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows instead of the frames that were waiting."""
        return [f"KeyboardInterrupt: {self}"]


def show_until_end(run: Run) -> None:
    """Show the run and wait until it has ended, however it ended. Raises KeyboardInterrupt when it is interrupted."""
    if in_notebook():
        from .display import Shown

        shown = Shown(run)
        try:
            with warnings_told(run, say):
                wait_in_foreground(run, say)
        finally:
            shown.finish()
    else:
        from .progress import TerminalProgress

        with TerminalProgress(run, sys.stderr) as progress:
            wait_in_foreground(run, progress.line)


def warnings_told(run: Run, tell: Callable[[str], None]) -> Follower:
    """A context in which what the run warns of is told as it comes."""

    def draw() -> None:
        for event in follower.new_events():
            if isinstance(event, Note) and event.level == "warning":
                tell(note_line(event))

    follower = Follower(run, draw, _WARNINGS_PERIOD_S)
    return follower


def in_notebook() -> bool:
    """Whether output goes to a notebook's cell."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


def wait_in_foreground(run: Run, tell: Callable[[str], None]) -> None:
    """Wait for the end. The first interrupt leaves the run to itself, a second one soon after stops it.

    Raises KeyboardInterrupt after either.
    """
    try:
        run.wait()
    except KeyboardInterrupt:
        pass
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
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
