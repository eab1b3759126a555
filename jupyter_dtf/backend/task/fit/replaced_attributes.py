"""Replaces attributes of one object temporarily, without changing its class, because saved models refer to the
class.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def hooked(holder: Any, **attributes: Any) -> Iterator[None]:
    """Inside this context, set attributes of the instance. They hide its previous attributes and the methods of its
    class.
    """
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
    """Inside this context, remove instance attributes that hide methods of the class."""
    hiding = {name: value for name, value in vars(holder).items() if callable(getattr(type(holder), name, None))}
    for name in hiding:
        object.__delattr__(holder, name)
    try:
        yield
    finally:
        for name, value in hiding.items():
            object.__setattr__(holder, name, value)
