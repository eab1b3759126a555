"""The properties of a run that a user can change: its name, tags and note, and whether it is archived or deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..schema.arguments import check_texts
from ..schema.run_marks import RunPatch

if TYPE_CHECKING:
    from ..schema.run import RunInfo
    from .session import Session


class NamedRun:
    """The part of ``Run`` that names, tags, archives and deletes the run.

    Changes are visible in all notebooks and browser pages of this user.
    """

    id: str
    _session: Session

    @property
    def info(self) -> RunInfo:
        """A summary of the run: its state, progress, tasks and latest metrics.

        Raises:
            NotFound: If the run is no longer known.
        """
        return self._session.hub.info(self.id)

    @property
    def name(self) -> str:
        """The name of the run. It can be changed; setting ``""`` restores the original name."""
        return self.info.name

    @name.setter
    def name(self, name: str) -> None:
        self._say(RunPatch(name=name))

    @property
    def tags(self) -> list[str]:
        """The tags of the run, in the order in which they were added; ``run.tags = [...]`` replaces all of them."""
        return list(self.info.marks.tags)

    @tags.setter
    def tags(self, tags: list[str]) -> None:
        self._say(RunPatch(tags=check_texts(tags, "tags", "['baseline']")))

    def tag(self, *tags: str) -> None:
        """Add tags to the run.

        Args:
            *tags: The tags to add.

        Raises:
            InvalidInput: If a tag is empty or too long, or there are too many.

        Example:
            >>> run.tag("baseline", "paper")
        """
        self._say(RunPatch(tags=[*self.tags, *tags]))

    def untag(self, *tags: str) -> None:
        """Remove tags from the run.

        Args:
            *tags: The tags to remove. Tags that the run does not have are ignored.
        """
        self._say(RunPatch(tags=[tag for tag in self.tags if tag not in tags]))

    @property
    def note(self) -> str:
        """A free-text note about the run; ``run.note = ...`` changes it."""
        return self.info.marks.note

    @note.setter
    def note(self, note: str) -> None:
        self._say(RunPatch(note=note))

    def archive(self) -> None:
        """Archive the run: lists omit it unless archived runs are requested."""
        self._say(RunPatch(archived=True))

    def delete(self, *, for_good: bool = False) -> None:
        """Delete the run from all lists. ``restore`` can undo this within a week.

        Args:
            for_good: Delete the run and its output permanently. Other files in its ``run_dir``, such as checkpoints,
                are kept.

        Raises:
            Conflict: If the run has not ended.
        """
        if for_good:
            self._session.hub.delete(self.id)
        else:
            self._say(RunPatch(deleted=True))

    def restore(self) -> None:
        """Undo ``archive`` or ``delete``.

        Raises:
            NotFound: If the run has been deleted permanently.
        """
        self._say(RunPatch(archived=False, deleted=False))

    def _say(self, patch: RunPatch) -> None:
        self._session.hub.mark(self.id, patch)
