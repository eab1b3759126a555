"""The parts of a checkpoint that a pipeline's tasks write. The tasks run TensorFlow operations only, no Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

from .variables import GraphVariables


class _Task(NamedTuple):
    """The operations of one task. ``path``: the placeholder for ``copy``'s target or ``write``'s prefix."""

    path: tf.Tensor
    copy: tf.Operation
    write: tf.Operation


class DeviceParts:
    """An implementation of ``Owners`` for the tasks whose devices hold variables.

    It uses a session that two threads may share. ``stored``: the key and the slice of each variable to write, keyed by
    the variable's id. ``fetch()`` fetches the remaining state that the chief needs.
    """

    def __init__(
        self,
        session: Any,
        variables: GraphVariables,
        stored: Mapping[int, tuple[str, str]],
        fetch: Callable[[], None],
    ) -> None:
        self._session = session
        self._fetch = fetch
        self.keys = frozenset(key for key, _ in stored.values())
        by_cpu: dict[str, list[tuple[str, str, tf.Tensor]]] = {}
        with session.graph.as_default():
            takes = []
            for variable, cpu, take, value in variables.copies(stored):
                by_cpu.setdefault(cpu, []).append((*stored[id(variable)], value))
                takes.append(take)
            self._take = tf.group(*takes)
            self._source = tf.compat.v1.placeholder(tf.string, [])
            self._tasks = [self._task(cpu, parts) for cpu, parts in sorted(by_cpu.items())]

    def _task(self, cpu: str, parts: Sequence[tuple[str, str, tf.Tensor]]) -> _Task:
        keys, slices, values = zip(*parts, strict=True)
        with tf.compat.v1.device(cpu):
            path = tf.compat.v1.placeholder(tf.string, [])
            copy = tf.raw_ops.WriteFile(filename=path, contents=tf.raw_ops.ReadFile(filename=self._source))
            write = tf.raw_ops.SaveV2(prefix=path, tensor_names=keys, shape_and_slices=slices, tensors=values)
        return _Task(path, copy, write)

    @property
    def count(self) -> int:
        return len(self._tasks)

    def copy(self, source: Path, targets: Sequence[Path]) -> None:
        self._session.run([task.copy for task in self._tasks], {self._source.name: str(source), **self._paths(targets)})

    def take(self, *, final: bool = False) -> None:
        self._session.run(self._take)
        self._fetch()

    def write(self, prefixes: Sequence[Path]) -> None:
        self._session.run([task.write for task in self._tasks], self._paths(prefixes))

    def _paths(self, paths: Sequence[Path]) -> dict[str, str]:
        return {task.path.name: str(path) for task, path in zip(self._tasks, paths, strict=True)}
