"""Synchronizes the tasks' copies of a caller's object, so that a method call changes all copies in the same way.

An object that shuffles its indices draws random numbers. If the tasks' copies drew different numbers, the tasks would
see some examples twice and others never, without any error.
"""

from __future__ import annotations

import hashlib
import pickle
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import cloudpickle
import numpy as np

Path = tuple[str, ...]

_DEEPEST = 6


@dataclass
class Changes:
    """The attributes that a call has changed or removed. A path consists of the names of nested attributes."""

    values: dict[Path, Any] = field(default_factory=dict)
    gone: list[Path] = field(default_factory=list)


def changes_of(value: Any, call: Callable[[], object]) -> Changes:
    """Run ``call``, and return the changes that it made to ``value``."""
    before = {path: digest for path, _, digest in _leaves(value)}
    call()
    after = {path: (leaf, digest) for path, leaf, digest in _leaves(value)}
    values = {path: leaf for path, (leaf, digest) in after.items() if before.get(path) != digest}
    return Changes(values, [path for path in before if path not in after and not _has(value, path)])


def all_of(value: Any) -> Changes:
    """Return the changes that make any other copy equal to ``value``."""
    return Changes({path: leaf for path, leaf, _ in _leaves(value)})


def apply(value: Any, changes: Changes) -> None:
    """Apply changes to another copy."""
    for path, leaf in changes.values.items():
        if _has(value, path[:-1]):
            setattr(_at(value, path[:-1]), path[-1], leaf)
    for path in changes.gone:
        if _has(value, path):
            delattr(_at(value, path[:-1]), path[-1])


@contextmanager
def drawing_from(*seed: int) -> Iterator[None]:
    """Seed the global random generators of Python, NumPy and PyTorch inside this context, and restore them afterwards.

    PyTorch's generator is included only if PyTorch has been imported.
    """
    python, numpy = random.getstate(), np.random.get_state()
    torch = sys.modules.get("torch")
    state = torch.random.get_rng_state() if torch is not None else None
    draw_from(*seed)
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        if torch is not None:
            torch.random.set_rng_state(state)


def draw_from(*seed: int) -> None:
    """Seed the global random generators of Python, NumPy and, if PyTorch has been imported, PyTorch."""
    words = [int(word) for word in np.random.SeedSequence([abs(part) for part in seed]).generate_state(4)]
    random.seed(words[0])
    np.random.seed(words[1:])
    if (torch := sys.modules.get("torch")) is not None:
        torch.random.manual_seed(words[0])


def vary(value: Any, *by: int) -> None:
    """Make the random generators of a copy draw different numbers from the generators of copies for which ``by`` has
    different values.

    If ``by`` consists only of zeros, nothing changes. Generators in objects that cannot be pickled are never changed.
    """
    if not any(by):
        return
    for generator in {id(each): each for each in _generators(value)}.values():
        if isinstance(generator, np.random.Generator):
            bits: Any = generator.bit_generator
            seed = int(np.random.Generator(type(bits)(_numbers(bits.state, by))).integers(2**63))
            bits.state = type(bits)(seed).state
        elif isinstance(generator, np.random.RandomState):
            generator.seed(_numbers(generator.get_state(legacy=False), by) % 2**32)
        else:
            generator.seed(_numbers(generator.getstate(), by))


def _generators(value: Any, depth: int = 0, seen: tuple[int, ...] = ()) -> Iterator[Any]:
    """Yield the random generators among the attributes of ``value``, which are searched in the same way as in
    ``_leaves``.
    """
    for leaf in list(getattr(value, "__dict__", {}).values()):
        found: list[Any] = []
        try:
            _Finder(found).dump(leaf)
        except Exception:
            if depth < _DEEPEST and id(leaf) not in seen:
                yield from _generators(leaf, depth + 1, (*seen, id(leaf)))
        else:
            yield from found


def _numbers(state: Any, by: tuple[int, ...]) -> int:
    digest = hashlib.blake2b(pickle.dumps((state, by)), digest_size=8).digest()
    return int.from_bytes(digest, "little")


class _Null:
    def write(self, data: Any) -> int:
        return len(data)


class _Finder(cloudpickle.Pickler):
    """Collects the random generators that it pickles."""

    def __init__(self, found: list[Any]) -> None:
        super().__init__(_Null(), protocol=5, buffer_callback=lambda buffer: None)
        self._found = found

    def persistent_id(self, value: Any) -> None:
        if isinstance(value, (np.random.Generator, np.random.RandomState, random.Random)):
            self._found.append(value)


def _leaves(value: Any, path: Path = (), seen: tuple[int, ...] = ()) -> Iterator[tuple[Path, Any, bytes]]:
    """Yield the attributes of ``value``. An attribute that cannot be pickled is replaced with its own attributes.

    Objects that cannot be pickled and have no attributes, such as open files or locks, are omitted.
    """
    for name, leaf in list(getattr(value, "__dict__", {}).items()):
        try:
            digest = _digest(leaf)
        except Exception:
            if len(path) < _DEEPEST and id(leaf) not in seen:
                yield from _leaves(leaf, (*path, name), (*seen, id(leaf)))
            continue
        yield (*path, name), leaf, digest


def _digest(value: Any) -> bytes:
    buffers: list[pickle.PickleBuffer] = []
    digest = hashlib.blake2b(cloudpickle.dumps(value, protocol=5, buffer_callback=buffers.append), digest_size=16)
    for buffer in buffers:
        digest.update(buffer.raw())
    return digest.digest()


def _at(value: Any, path: Path) -> Any:
    for name in path:
        value = getattr(value, name)
    return value


def _has(value: Any, path: Path) -> bool:
    try:
        _at(value, path)
    except AttributeError:
        return False
    return True
