"""Attributes of one object replaced for a while, its class left alone: a saved model must not know of this."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def hooked(holder: Any, **attributes: Any) -> Iterator[None]:
    """Attributes of the instance that hide its own, or methods of its class, for as long as this lasts."""
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
    """The methods of the instance's class, whatever hides them, for as long as this lasts."""
    hiding = {name: value for name, value in vars(holder).items() if callable(getattr(type(holder), name, None))}
    for name in hiding:
        object.__delattr__(holder, name)
    try:
        yield
    finally:
        for name, value in hiding.items():
            object.__setattr__(holder, name, value)
