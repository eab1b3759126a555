"""Checkpoints of programs: a tree of arrays, written by the chief and read by every task."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from ....errors import InvalidInput, NotFound
from ....schema.checkpoint import FORMAT, Checkpoint, Manifest
from . import files
from .places import at, directory_of, place_of
from .save_state import saving
from .writer import Writer


class Restored(NamedTuple):
    """The contents of a program's checkpoint."""

    step: int
    tree: Any


class _Array(NamedTuple):
    """A placeholder in a pickled tree for the array with the key ``key``."""

    key: str


class TreeCheckpoints:
    """The checkpoints that a program writes and reads through ``ctx``."""

    def __init__(self, ctx: Any, policy: Checkpoint) -> None:
        self._ctx = ctx
        self._policy = policy
        self._directory = directory_of(policy, ctx)
        self._writer = Writer(self._directory, policy, ctx.checkpoint_saved, self._warn)

    def write(self, step: int, tree: Any) -> None:
        """Start writing a checkpoint. Raises InvalidInput if a value cannot be pickled."""
        with saving():
            self._write(step, tree)

    def _write(self, step: int, tree: Any) -> None:
        self._writer.wait()
        arrays: dict[str, Any] = {}
        kept = _without_arrays(tree, "tree", arrays)
        try:
            state = files.pickled(kept)
        except Exception as error:
            raise InvalidInput(
                f"Everything in `tree` except arrays must be picklable, got {type(error).__name__}: {error}",
                field="tree",
            ) from error
        manifest = Manifest(
            format=FORMAT, kind="program", step=step, time=time.time(), run_id=self._ctx.run_id, tasks=self._ctx.size
        )
        self._writer.write(manifest, arrays, state)

    def read(self, step: int | None, first: str = "") -> Restored | None:
        """Read the run's newest checkpoint, or its checkpoint of ``step``.

        If the run has no such checkpoint, the checkpoint is read from the path or URL ``first``. In that case, returns
        None if ``first`` is empty, and raises NotFound if there is no such checkpoint at ``first`` either.
        """
        self._writer.wait()
        try:
            stored = at(self._directory).newest(self._directory, step)
        except NotFound:
            if not first:
                return None
            place = place_of(first)
            stored = at(place).newest(place, step)
        if stored.manifest.kind != "program":
            raise InvalidInput(
                f"ctx.restore() must be given a checkpoint that ctx.checkpoint() has written, got {stored.info.path} "
                f"of kind {stored.manifest.kind}"
            )
        return Restored(stored.manifest.step, _with_arrays(stored.state(), stored.arrays()))

    def _warn(self, title: str, text: str) -> None:
        self._ctx.note("warning", title, text)


def _without_arrays(value: Any, key: str, arrays: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        return {name: _without_arrays(item, f"{key}/{name}", arrays) for name, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(
            *(_without_arrays(v, f"{key}/{n}", arrays) for n, v in zip(value._fields, value, strict=True))
        )
    if isinstance(value, (list, tuple)):
        return type(value)([_without_arrays(item, f"{key}/{number}", arrays) for number, item in enumerate(value)])
    if not hasattr(value, "numpy") and not hasattr(value, "__array__"):
        return value
    array = files.taken(value)
    if array.dtype == object:
        return array
    while key in arrays:  # different keys of a dict, such as 1 and "1", have the same string
        key += "_"
    arrays[key] = array
    return _Array(key)


def _with_arrays(value: Any, arrays: dict[str, Any]) -> Any:
    if isinstance(value, _Array):
        return arrays[value.key]
    if isinstance(value, dict):
        return {name: _with_arrays(item, arrays) for name, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_with_arrays(item, arrays) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)([_with_arrays(item, arrays) for item in value])
    return value
