"""Writes to a terminal, without failing if the terminal is closed, narrow or limited to ASCII."""

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
    """Write ``text`` in characters that ``stream`` can encode. Return whether it was written.

    ``stream`` is None if it was closed before Python started.
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
    """Return ``text`` with the characters that ``stream`` cannot encode replaced."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_PLAIN).encode(encoding, "backslashreplace").decode(encoding)
    return text


def say(text: str) -> None:
    """Print a line for the user on standard output."""
    write(sys.stdout, f"{text}\n")
