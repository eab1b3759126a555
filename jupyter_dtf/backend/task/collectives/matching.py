"""The order of collectives in TensorFlow 1 graphs, where program order has no meaning.

A session runs all operations that are ready, in a different order in each task, and cannot know in advance which
collectives of a graph a run will reach. So the tasks exchange the names of the collectives that they have reached, and
run those that all tasks have reached, in the order of their names. Waiting must not block the session's threads (there
may be only one), so the results come from an iterator's ``get_next``, for which TensorFlow waits in the background.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
import tensorflow as tf

from .calls import differ
from .primitive import Array

_AGAIN_S = 0.002
"""The time in seconds to wait for more collectives when none has been reached by all tasks."""

Collective = Callable[[], list[Array]]


class Matching:
    """One task's part in the matching.

    ``gather`` returns every task's value, in rank order; ``tasks`` are the tasks' names. If the tasks have waited for
    ``patience_s`` seconds in collectives, but in none that all have reached, all raise DifferentCalls.
    """

    def __init__(self, gather: Callable[[Any], list[Any]], tasks: Sequence[str], patience_s: float) -> None:
        self._gather = gather
        self._tasks = list(tasks)
        self._patience_s = patience_s
        self._changed = threading.Condition()
        self._reached: dict[str, list[tuple[Collective, Future[list[Array]]]]] = {}
        self._results: dict[str, list[Future[list[Array]]]] = {}
        self._thread: threading.Thread | None = None

    def as_op(
        self, function: Callable[..., list[Array]], inputs: Sequence[tf.Tensor], like: Sequence[Any], name: str
    ) -> list[tf.Tensor]:
        """Return the outputs of an op that applies ``function`` to the inputs as arrays.

        The outputs have the dtypes and shapes of ``like``. ``name`` must be the same in all tasks, and unique in the
        graph.
        """

        def reach(*arrays: Array) -> Array:
            self._reach(name, lambda: function(*arrays))
            return np.array(True)

        @tf.autograph.experimental.do_not_convert
        def result(_: Any) -> tuple[tf.Tensor, ...]:
            return tuple(tf.numpy_function(lambda _: self._take(name), [_], [t.dtype for t in like]))

        with tf.device("CPU:0"), tf.control_dependencies([tf.numpy_function(reach, list(inputs), tf.bool)]):
            outputs = tf.compat.v1.data.make_one_shot_iterator(_forever(result)).get_next()
        for output, spec in zip(outputs, like, strict=True):
            output.set_shape(spec.shape)
        return list(outputs)

    def _reach(self, name: str, collective: Collective) -> None:
        future: Future[list[Array]] = Future()
        with self._changed:
            self._reached.setdefault(name, []).append((collective, future))
            self._results.setdefault(name, []).append(future)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="dtf-matching", daemon=True)
                self._thread.start()
            self._changed.notify()

    def _take(self, name: str) -> list[Array]:
        with self._changed:
            future = self._results[name].pop(0)
        return future.result()

    def _run(self) -> None:
        since = time.monotonic()
        while True:
            with self._changed:
                if not self._reached:
                    self._changed.wait_for(lambda: self._reached)
                    since = time.monotonic()
                names = list(self._reached)
            try:
                everyones = self._gather((names, time.monotonic() - since > self._patience_s))
                common = sorted(set.intersection(*(set(reached) for reached, _ in everyones)))
                if not common and any(impatient for _, impatient in everyones):
                    raise differ(
                        {
                            task: f"{', '.join(reached)} in a graph"
                            for task, (reached, _) in zip(self._tasks, everyones, strict=True)
                        }
                    )
                for name in common:
                    self._call(name)
                    since = time.monotonic()
            except Exception as error:
                self._fail(error)
                continue
            if not common:
                with self._changed:
                    self._changed.wait(_AGAIN_S)

    def _call(self, name: str) -> None:
        with self._changed:
            calls = self._reached[name]
            collective, future = calls.pop(0)
            if not calls:
                del self._reached[name]
        try:
            future.set_result(collective())
        except Exception as error:
            future.set_exception(error)
            raise

    def _fail(self, error: Exception) -> None:
        """Make the session's run, and all collectives that are waiting in it, fail with ``error``."""
        with self._changed:
            waiting = [future for calls in self._reached.values() for _, future in calls]
            self._reached.clear()
        for future in waiting:
            future.set_exception(error)


def _forever(function: Callable[[Any], Any]) -> tf.data.Dataset:
    """Return a dataset in which every element is the result of a call to the function, made in a separate thread."""
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    options.experimental_optimization.apply_default_optimizations = False
    options.autotune.enabled = False
    return tf.data.Dataset.from_tensors(0).repeat().map(function).with_options(options)
