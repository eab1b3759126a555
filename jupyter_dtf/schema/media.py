"""The limits and the list of what tasks report besides numbers: histograms, pictures, texts and tables."""

from __future__ import annotations

from .base import PeerStruct

MOST_BINS = 200
MOST_SIDE = 2048
"""The most pixels of a picture's longer side."""
MOST_PICTURE_BYTES = 256 << 10
"""The most bytes of a picture as PNG."""
MOST_TEXT_BYTES = 64 << 10
"""The most bytes of a text as UTF-8."""
MOST_ROWS, MOST_COLUMNS = 1000, 100
"""The largest size of a table."""
MOST_TABLE_BYTES = 256 << 10
"""The most bytes of a table's cells."""
MOST_NAMES = 200
"""The most names of a task, over all kinds: what changes belongs into the step, not into the name."""
ALL_HISTOGRAMS, ALL_PICTURES = 1000, 100
"""The first histograms of a name, and the first items of other kinds, are all sent; of the next as many every second,
then every fourth, and so on.
"""
ALL_BYTES = 4 << 20
"""The same limit in bytes, whichever is reached first: large items are thinned sooner."""


class MediaSeries(PeerStruct):
    """The histograms, pictures, texts or tables of one name that a task has reported, as far as they are kept."""

    kind: str  # histogram, image, text, table
    name: str
    task: str
    steps: list[float]
    """The step of each, in ascending order."""
