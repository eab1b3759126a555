"""What tasks report beside numbers: how many values were where (histograms), and pictures. Its limits, and its list."""

from __future__ import annotations

from .base import PeerStruct

MOST_BINS = 200
MOST_SIDE = 2048
"""Pixels of a picture's longer side."""
MOST_PICTURE_BYTES = 256 << 10
"""Of a picture as PNG."""
MOST_NAMES = 200
"""Of histograms and pictures together, which one task may use: beyond it, what changes is a step and no name."""
ALL_HISTOGRAMS, ALL_PICTURES = 1000, 100
"""So many of a name are sent one and all; of as many more every second, then every fourth, and so on."""
ALL_BYTES = 4 << 20
"""The same of the bytes of a name's pictures, whichever is reached first: large pictures are thinned sooner."""


class MediaSeries(PeerStruct):
    """The histograms, or the pictures, of one name that a task has reported, as far as they are kept."""

    kind: str  # histogram, image
    name: str
    task: str
    steps: list[float]
    """Of each, in the order of the steps."""
