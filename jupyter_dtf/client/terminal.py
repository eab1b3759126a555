"""Writing to a terminal that may be closed, narrow or limited to ASCII, without ever failing because of it."""

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
    """Write ``text`` in characters that ``stream`` can encode. Returns whether it was written.

    A stream that was closed before Python started is None.
    """
    if stream is None:
        return False
    try:
        stream.write(readable(text, stream))
        stream.flush()
    except (OSError, ValueError):  # the reader has gone, or the stream was closed
        return False
    return True


def readable(text: str, stream: TextIO) -> str:
    """``text`` with characters that ``stream`` cannot encode replaced."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_PLAIN).encode(encoding, "backslashreplace").decode(encoding)
    return text


def say(text: str) -> None:
    """Print a line for the user on standard output."""
    write(sys.stdout, f"{text}\n")
