"""Writing to a terminal that may be gone, narrow, or know ASCII only: none of it is a reason to fail."""

from __future__ import annotations

import sys
from typing import TextIO

_PLAIN = str.maketrans(
    {
        "━": "#",
        "╌": "-",
        "…": "~",
        "·": ",",
        "✓": "+",
        "✗": "x",
        "■": "#",
        "○": "o",
        "∞": "inf",
        "µ": "u",
        "\u2013": "-",
        "\u2212": "-",
    }
)


def write(stream: TextIO | None, text: str) -> bool:
    """Write ``text``, in signs that ``stream`` has. Returns whether anybody can have read it.

    A stream that was closed before Python started is None.
    """
    if stream is None:
        return False
    try:
        stream.write(readable(text, stream))
        stream.flush()
    except (OSError, ValueError):  # who read it has had enough, or it was closed
        return False
    return True


def readable(text: str, stream: TextIO) -> str:
    """``text`` as ``stream`` can show it."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_PLAIN).encode(encoding, "backslashreplace").decode(encoding)
    return text


def say(text: str) -> None:
    """A line on standard output, for a person."""
    write(sys.stdout, f"{text}\n")
