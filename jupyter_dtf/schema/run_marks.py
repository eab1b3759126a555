"""The marks that users set on a run, which are not part of its events: name, tags, note, and whether it is archived."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import InvalidInput
from .base import PeerStruct, Struct
from .printable import check_line, is_whole

MOST_TAGS = 32
MOST_OF_A_TAG = 64
MOST_OF_A_NAME = 200
MOST_OF_A_NOTE = 10_000
"""The largest number of characters of a note."""


class RunMarks(PeerStruct):
    """The marks of a run, as they are stored."""

    name: str = ""
    """The new name of the run; empty: the name with which it was submitted."""
    tags: list[str] = []
    note: str = ""
    archived: bool = False
    """Whether lists omit the run unless archived runs are requested."""
    deleted: float | None = None
    """When the run was deleted, in seconds since the epoch. A deleted run is not listed, but can be restored for a
    limited time."""


class RunPatch(Struct):
    """A change to the marks of a run. Null leaves a field unchanged; an empty ``name`` restores the original name."""

    name: str | None = None
    tags: list[str] | None = None
    note: str | None = None
    archived: bool | None = None
    deleted: bool | None = None

    def __post_init__(self) -> None:
        if self.name is not None:
            check_line(self.name, "name")
            _check_length(self.name, MOST_OF_A_NAME, "name")
        if self.tags is not None:
            self.tags = checked_tags(self.tags)
        if self.note is not None:
            if not isinstance(self.note, str) or not is_whole(self.note):
                raise InvalidInput(
                    f"`note` must be a string without lone surrogates, got {self.note!r:.200}", field="note"
                )
            _check_length(self.note, MOST_OF_A_NOTE, "note")

    def applied(self, marks: RunMarks, now: float) -> RunMarks:
        """Return the marks after this change at the time ``now``, in seconds since the epoch."""
        deleted = marks.deleted
        if self.deleted is not None:
            deleted = (now if deleted is None else deleted) if self.deleted else None
        return RunMarks(
            name=marks.name if self.name is None else self.name.strip(),
            tags=list(marks.tags if self.tags is None else self.tags),
            note=marks.note if self.note is None else self.note,
            archived=marks.archived if self.archived is None else self.archived,
            deleted=deleted,
        )


def checked_tags(tags: Iterable[str]) -> list[str]:
    """Return tags as they are stored: without surrounding spaces or duplicates. Raises InvalidInput."""
    found: dict[str, None] = {}
    for tag in tags:
        check_line(tag, "tags")
        if not tag.strip():
            raise InvalidInput(f"A tag must be a nonempty string, got {tag!r}", field="tags")
        _check_length(tag, MOST_OF_A_TAG, "tags")
        found[tag.strip()] = None
    if len(found) > MOST_TAGS:
        raise InvalidInput(f"`tags` must have at most {MOST_TAGS} tags, got {len(found)}", field="tags")
    return list(found)


def _check_length(text: str, most: int, field: str) -> None:
    if len(text) > most:
        raise InvalidInput(f"`{field}` must have at most {most} characters, got {len(text)}", field=field)
