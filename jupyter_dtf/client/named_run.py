"""What a person says of a run: its name, tags, a note; that it is put aside, or deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..schema.run_marks import RunPatch

if TYPE_CHECKING:
    from ..schema.run import RunInfo
    from .session import Session


class NamedRun:
    """A run by its id, as far as it is named and kept. All of it is seen by every notebook and page of this user."""

    id: str
    _session: Session

    @property
    def info(self) -> RunInfo:
        """All that is known of it but its events, output and points. Raises NotFound."""
        return self._session.hub.info(self.id)

    @property
    def name(self) -> str:
        """What it is called. Another name can be set; an empty one gives it back the one that it was started with."""
        return self.info.name

    @name.setter
    def name(self, name: str) -> None:
        self._say(RunPatch(name=name))

    @property
    def tags(self) -> list[str]:
        """Its tags, in the order in which they were given; ``run.tags = [...]`` sets all of them."""
        return list(self.info.marks.tags)

    @tags.setter
    def tags(self, tags: list[str]) -> None:
        self._say(RunPatch(tags=list(tags)))

    def tag(self, *tags: str) -> None:
        """Give it further tags. Raises InvalidInput."""
        self._say(RunPatch(tags=[*self.tags, *tags]))

    def untag(self, *tags: str) -> None:
        """Take tags away from it; those that it has not got do not matter."""
        self._say(RunPatch(tags=[tag for tag in self.tags if tag not in tags]))

    @property
    def note(self) -> str:
        """Whatever somebody has written about it; ``run.note = ...`` writes it."""
        return self.info.marks.note

    @note.setter
    def note(self, note: str) -> None:
        self._say(RunPatch(note=note))

    def archive(self) -> None:
        """Put it aside: lists leave it out unless they are asked for what is archived."""
        self._say(RunPatch(archived=True))

    def delete(self, *, for_good: bool = False) -> None:
        """Delete it, once it has ended: it is in no list any more, and ``restore`` has it back within a week.

        ``for_good``: forget it at once, with its output; the rest of its ``run_dir`` stays, checkpoints included.
        Raises Conflict while it is under way.
        """
        if for_good:
            self._session.hub.delete(self.id)
        else:
            self._say(RunPatch(deleted=True))

    def restore(self) -> None:
        """Have it back among the others after ``archive`` or ``delete``. Raises NotFound if it has been forgotten."""
        self._say(RunPatch(archived=False, deleted=False))

    def _say(self, patch: RunPatch) -> None:
        self._session.hub.mark(self.id, patch)
