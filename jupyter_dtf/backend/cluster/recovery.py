"""The cost of losing a task: the steps that are repeated, and the time until a new step is completed. Pure."""

from __future__ import annotations

from ...schema.events import CONTINUES, Note, Progressed
from ...schema.sizes import duration


class Recovery:
    """Follows a run from the loss of a task at ``time`` (seconds since the epoch) to the first step of a later attempt.

    ``lost`` is the task; ``done`` is the number of steps that the run was known to have completed before the loss.
    """

    def __init__(self, lost: str, time: float, done: int) -> None:
        self._lost = lost
        self._time = time
        self._done = done
        self._begins: int | None = None
        self.where: Note | None = None
        """The chief's note about the step from which training continues; it is recorded together with the cost."""

    def takes(self, note: Note) -> bool:
        """Keep a note if it states the step from which training continues. Returns whether the note was kept."""
        if not note.title.startswith(CONTINUES):
            return False
        self.where = note
        return True

    def follows(self, event: Progressed) -> tuple[str, str] | None:
        """Return the note on the cost (title, text) if ``event`` completes the attempt's first step, else None."""
        done = event.progress.done
        if event.progress.unit != "step":
            return None
        if self._begins is None or done <= self._begins:
            self._begins = done
            return None
        again = self._done - self._begins
        which = f"about {again} steps are" if again > 1 else "one step is"
        title = f"Continues after step {self._begins}" if self.where is None else self.where.title
        where = f"{self.where.text}. " if self.where is not None and self.where.text else ""
        cost = f"The first step ended {duration(event.time - self._time)} after {self._lost} was lost"
        return title + (f": {which} repeated" if again > 0 else ""), where + cost
