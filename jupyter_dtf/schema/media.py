"""What tasks report beside numbers: histograms, pictures, texts and tables. Its limits, and its list."""

from __future__ import annotations

from .base import PeerStruct

MOST_BINS = 200
MOST_SIDE = 2048
"""Pixels of a picture's longer side."""
MOST_PICTURE_BYTES = 256 << 10
"""Of a picture as PNG."""
MOST_TEXT_BYTES = 64 << 10
"""Of a text as UTF-8."""
MOST_ROWS, MOST_COLUMNS = 1000, 100
"""Of a table."""
MOST_TABLE_BYTES = 256 << 10
"""Of a table's cells."""
MOST_NAMES = 200
"""Of all of them together, which one task may use: beyond it, what changes is a step and no name."""
ALL_HISTOGRAMS, ALL_PICTURES = 1000, 100
"""So many histograms of a name, and so many of anything else, are sent one and all; of as many more every second, then
every fourth, and so on.
"""
ALL_BYTES = 4 << 20
"""The same of their bytes, whichever is reached first: what is large is thinned sooner."""


class MediaSeries(PeerStruct):
    """The histograms, pictures, texts or tables of one name that a task has reported, as far as they are kept."""

    kind: str  # histogram, image, text, table
    name: str
    task: str
    steps: list[float]
    """Of each, in the order of the steps."""
