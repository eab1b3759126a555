"""Attributes of a module replaced for a while, where Keras leaves no other way in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def patched(holder: Any, **attributes: Any) -> Iterator[None]:
    """Other values for attributes that ``holder`` has, for as long as this lasts."""
    before = {name: getattr(holder, name) for name in attributes}
    for name, value in attributes.items():
        setattr(holder, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(holder, name, value)
