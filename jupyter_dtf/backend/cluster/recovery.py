"""What the loss of a task has cost its run: steps that are done again, and the time until there was a new one. Pure."""

from __future__ import annotations

from ...schema.events import GOES_ON, Note, Progressed
from ...schema.sizes import duration


class Recovery:
    """From a loss at ``time`` (seconds since the epoch) to the first step of a later attempt.

    ``lost``: the task. ``done``: how many steps the run was known to have done.
    """

    def __init__(self, lost: str, time: float, done: int) -> None:
        self._lost = lost
        self._time = time
        self._done = done
        self._begins: int | None = None
        self.where: Note | None = None
        """The chief's word on where the training goes on, which is told together with what the loss has cost."""

    def takes(self, note: Note) -> bool:
        """Whether a note is that word, and kept here."""
        if not note.title.startswith(GOES_ON):
            return False
        self.where = note
        return True

    def follows(self, event: Progressed) -> tuple[str, str] | None:
        """The title and the text of what is to be told when the first step of the attempt of ``event`` has ended."""
        done = event.progress.done
        if event.progress.unit != "step":
            return None
        if self._begins is None or done <= self._begins:
            self._begins = done
            return None
        again = self._done - self._begins
        which = f"some {again} steps are" if again > 1 else "one step is"
        title = f"Goes on after step {self._begins}" if self.where is None else self.where.title
        where = f"{self.where.text}. " if self.where is not None and self.where.text else ""
        cost = f"The first step ended {duration(event.time - self._time)} after {self._lost} was lost"
        return title + (f": {which} done again" if again > 0 else ""), where + cost
