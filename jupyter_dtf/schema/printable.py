"""Text that can be encoded and shown. Python's strings may contain lone surrogates, which UTF-8 cannot encode."""

from __future__ import annotations

import os
import unicodedata
from typing import Any

from ..errors import InvalidInput

MOST = 100_000
"""The most characters of a text that is shown."""


def printable(text: str, most: int = MOST) -> str:
    """The text as it can be shown: lone surrogates are escaped, and a text that is too long is truncated."""
    if len(text) > most:
        text = f"{text[:most]}... ({len(text) - most} more characters)"
    return text if is_whole(text) else text.encode("utf-8", "backslashreplace").decode()


def is_whole(text: str) -> bool:
    """Whether it contains no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_line(text: Any, field: str) -> None:
    """Raise InvalidInput unless this is a text of one line, without control characters."""
    if not isinstance(text, str) or any(unicodedata.category(letter) in ("Cc", "Cs") for letter in text):
        raise InvalidInput(f"`{field}` must be a text without control characters, got {text!r:.200}", field=field)


def check_word(text: Any, field: str) -> None:
    """Raise InvalidInput unless this is a text that can be passed to the operating system."""
    if not isinstance(text, str) or "\0" in text or not is_whole(text):
        raise InvalidInput(
            f"`{field}` must be a text of whole characters other than NUL, got {text!r:.200}", field=field
        )


def all_printable(value: Any) -> Any:
    """The same plain data with every string printable."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {all_printable(key): all_printable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [all_printable(item) for item in value]
    return value


def shown_path(path: str) -> str:
    """A path, or a text with one in it, for display: its bytes as UTF-8, whatever encoding Python uses."""
    try:
        return path if is_whole(path) else os.fsencode(path).decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # it is none of the system's
        return printable(path)
