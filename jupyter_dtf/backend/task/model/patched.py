"""Temporary replacement of attributes, where Keras has no hooks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def patched(holder: Any, **attributes: Any) -> Iterator[None]:
    """Replace attributes of ``holder`` within the block."""
    before = {name: getattr(holder, name) for name in attributes}
    for name, value in attributes.items():
        setattr(holder, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(holder, name, value)
