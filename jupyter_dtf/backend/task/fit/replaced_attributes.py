"""Temporary replacement of attributes of one object, without changing its class: a saved model must not know."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def hooked(holder: Any, **attributes: Any) -> Iterator[None]:
    """Set attributes of the instance, hiding its own or methods of its class, inside this context."""
    own = {name: vars(holder)[name] for name in attributes if name in vars(holder)}
    for name, value in attributes.items():
        object.__setattr__(holder, name, value)
    try:
        yield
    finally:
        for name in attributes:
            if name in own:
                object.__setattr__(holder, name, own[name])
            else:
                object.__delattr__(holder, name)


@contextmanager
def unhooked(holder: Any) -> Iterator[None]:
    """Remove instance attributes that hide methods of the class, inside this context."""
    hiding = {name: value for name, value in vars(holder).items() if callable(getattr(type(holder), name, None))}
    for name in hiding:
        object.__delattr__(holder, name)
    try:
        yield
    finally:
        for name, value in hiding.items():
            object.__setattr__(holder, name, value)
