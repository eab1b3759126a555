"""Limits and listings of the media that tasks report: histograms, images, strings and tables."""

from __future__ import annotations

from .base import PeerStruct

MOST_BINS = 200
MOST_SIDE = 2048
"""The largest number of pixels of an image's longer side."""
MOST_PICTURE_BYTES = 256 << 10
"""The largest number of bytes of an image as PNG."""
MOST_TEXT_BYTES = 64 << 10
"""The largest number of bytes of a string as UTF-8."""
MOST_ROWS, MOST_COLUMNS = 1000, 100
"""The largest numbers of rows and columns of a table."""
MOST_TABLE_BYTES = 256 << 10
"""The largest number of bytes of a table's cells."""
MOST_NAMES = 200
"""The largest number of names under which a task can report media. Numbers that change belong in the step, not in the
name."""
ALL_HISTOGRAMS, ALL_PICTURES = 1000, 100
"""The number of histograms, and of items of each other kind, up to which every item is sent. After that, every second
item is sent until the same number has been sent again, then every fourth, and so on.
"""
ALL_BYTES = 4 << 20
"""The same limit in bytes, for all items except histograms. Whichever limit is reached first applies, so large items
are thinned out sooner."""


class MediaSeries(PeerStruct):
    """The histograms, images, strings or tables that a task reported under one name and that were kept."""

    kind: str  # histogram, image, text, table
    name: str
    task: str
    steps: list[float]
    """The steps of the items, in ascending order."""
