"""Saves and restores the tensors that layers, metrics and losses hold between the parts of a replica's step.

Keras keeps the losses of a forward pass (``add_loss``, activity regularizers) in its layers, and a user's own code may
keep any tensor in an attribute. Replicas share these objects and run in turn, so before a replica continues, the
objects must hold the tensors that this replica has stored, not tensors that another replica has stored since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ..losses import losses_of

_DEPTH = 4
"""The number of nested levels of containers that are searched for tensors."""
_ABSENT = object()


@dataclass
class Held:
    """The attributes that objects had at one point in time, and the contents of attributes that are lists or dicts."""

    holders: list[Any]
    attributes: dict[int, dict[str, tuple[Any, Any]]]


def holders_of(model: Any) -> Callable[[], list[Any]]:
    """Return a function that returns the objects of a model that may hold tensors during a step."""

    def holders() -> list[Any]:
        found = [*model._flatten_layers(), *model.metrics, *losses_of(model)]
        return [each for each in {id(each): each for each in found}.values() if hasattr(each, "__dict__")]

    return holders


def held_by(holders: list[Any]) -> Held:
    """Return the current attributes of the objects."""
    return Held(
        holders,
        {id(holder): {name: (value, _content(value)) for name, value in vars(holder).items()} for holder in holders},
    )


def give_back(held: Held) -> None:
    """Restore the tensors that the objects held when ``held`` was recorded, and remove all other tensors. Attributes
    without tensors keep their values.
    """
    for holder in held.holders:
        then, now = held.attributes[id(holder)], vars(holder)
        for name in [*now, *(name for name in then if name not in now)]:
            value, content = then.get(name, (_ABSENT, None))
            current = now.get(name, _ABSENT)
            if not (_has_tensors(current) or _has_tensors(value if content is None else content)):
                continue
            if value is _ABSENT:
                object.__delattr__(holder, name)
                continue
            if current is not value:
                object.__setattr__(holder, name, value)
            if content is not None:
                _refill(value, content)


def _content(value: Any) -> Any:
    if isinstance(value, list):
        return list(value)
    return dict(value) if isinstance(value, dict) else None


def _refill(container: Any, content: Any) -> None:
    """Replace the contents of a container, bypassing the methods of Keras's subclasses, which search added items for
    layers and variables.
    """
    if isinstance(container, list):
        list.__setitem__(container, slice(None), content)
    else:
        dict.clear(container)
        dict.update(container, content)


def _has_tensors(value: Any, depth: int = _DEPTH) -> bool:
    if isinstance(value, (list, tuple, set, dict)):
        return depth > 0 and any(_has_tensors(each, depth - 1) for each in _elements(value))
    return tf.is_tensor(value) and not isinstance(value, tf.Variable)


def _elements(container: Any) -> Iterator[Any]:
    return iter(container.values() if isinstance(container, dict) else container)
