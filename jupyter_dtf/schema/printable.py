"""Makes text encodable and printable. Python's strings may contain lone surrogates, which UTF-8 cannot encode."""

from __future__ import annotations

import os
import unicodedata
from typing import Any

from ..errors import InvalidInput

MOST = 100_000
"""The maximum number of characters of a string that are shown."""


def printable(text: str, most: int = MOST) -> str:
    """Return a string in a form that can be shown: lone surrogates are escaped, and a long string is truncated."""
    if len(text) > most:
        text = f"{text[:most]}... ({len(text) - most} more characters)"
    return text if is_whole(text) else text.encode("utf-8", "backslashreplace").decode()


def is_whole(text: str) -> bool:
    """Return whether a string contains no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_line(text: Any, field: str) -> None:
    """Raise InvalidInput unless ``text`` is a string of one line without control characters."""
    if not isinstance(text, str) or any(unicodedata.category(letter) in ("Cc", "Cs") for letter in text):
        raise InvalidInput(f"`{field}` must be a string without control characters, got {text!r:.200}", field=field)


def check_word(text: Any, field: str) -> None:
    """Raise InvalidInput unless ``text`` is a string that can be passed to the operating system."""
    if not isinstance(text, str) or "\0" in text or not is_whole(text):
        raise InvalidInput(
            f"`{field}` must be a string without NUL characters or lone surrogates, got {text!r:.200}", field=field
        )


def all_printable(value: Any) -> Any:
    """Return a copy of plain data in which every string is printable."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {all_printable(key): all_printable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [all_printable(item) for item in value]
    return value


def shown_path(path: str) -> str:
    """Return a path, or a string that contains one, for display: its bytes as UTF-8, whichever encoding Python uses."""
    try:
        return path if is_whole(path) else os.fsencode(path).decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # not a path of the operating system
        return printable(path)
