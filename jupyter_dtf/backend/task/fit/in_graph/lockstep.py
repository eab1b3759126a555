"""Runs a function once per replica, in lockstep.

After ``optimizer.apply``, a training step needs the variables as updated with the mean gradient of all replicas.
Therefore, each replica's part of the step runs in its own thread up to a barrier, where it waits for all other
replicas; the caller's thread then merges their values, and the replicas continue with the result. Only one of the
threads runs at a time, in the order of the replicas, so operations are created in the same order every time.
(``tf.distribute`` runs its own replicas in the same way.)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

# Keras 3.15: there is no public way to save and restore the global state.
from keras.src.backend.common.global_state import GLOBAL_STATE_TRACKER

from .....errors import InvalidInput
from .held_tensors import Held, give_back, held_by


class Lockstep:
    """Runs replicas in lockstep. ``current`` is the index of the running replica, or None while values are merged or no
    replica runs.

    ``holders()`` returns the objects that the replicas share. Each replica finds in these objects the tensors that it
    has stored itself, and initially the tensors from before the step.
    """

    def __init__(self, holders: Callable[[], list[Any]] = list) -> None:
        self.current: int | None = None
        self._holders = holders
        self._replicas: list[_Replica] = []
        self._graph: Any = None

    def run(self, count: int, function: Callable[[int], Any]) -> list[Any]:
        """Return the results of ``function(replica)`` for ``count`` replicas, in order, in the current graph or
        eagerly.

        Raises the exception of the first replica that fails.
        """
        self._graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        if self._graph is not None:
            self._graph.switch_to_thread_local()
        enter = _surroundings(self._graph)
        held = held_by(self._holders()) if count > 1 else None
        self._replicas = [_Replica(index, function, enter, held) for index in range(count)]
        try:
            while True:
                for replica in self._replicas:
                    self._resume(replica)
                ended = [replica.ended for replica in self._replicas]
                if all(ended):
                    return [replica.value for replica in self._replicas]
                if any(ended):
                    raise InvalidInput(
                        "`model`: train_step must make the same calls on every replica, got one that ends early"
                    )
                merged = self._replicas[0].merge([replica.value for replica in self._replicas])
                for replica in self._replicas:
                    replica.value = merged
        finally:
            for replica in self._replicas:
                replica.abandon()
            self._replicas = []

    @property
    def at_top_level(self) -> bool:
        """Whether the running replica is at the top level of the step, not inside a loop, condition or function."""
        return self._graph is None or tf.compat.v1.get_default_graph() is self._graph

    def meet(self, value: Any, merge: Callable[[list[Any]], Any]) -> Any:
        """Wait for the other replicas, and return the result of ``merge`` for the list of all values, in the order of
        the replicas. Called by each replica.
        """
        assert self.current is not None
        if not self.at_top_level:
            raise InvalidInput(
                "`model`: train_step must compute losses and apply an optimizer at its top level, where replicas can "
                "wait for each other, got a call inside a loop, condition or tf.function"
            )
        return self._replicas[self.current].pause(value, merge)

    def _resume(self, replica: _Replica) -> None:
        self.current = replica.index
        if replica.held is not None:
            give_back(replica.held)
        try:
            replica.resume()
        finally:
            self.current = None
        if replica.held is not None:
            replica.held = held_by(self._holders())
        if replica.error is not None:
            raise replica.error


class _Abandoned(BaseException):
    """Raised in the thread of a replica that is no longer needed, to end the thread."""


class _Replica:
    """One replica and its thread. ``value``: the value that the replica hands over at a barrier or returns, or the
    merged value.

    ``held``: the attributes of the shared objects when the replica last ran; None if there are no other replicas.
    """

    def __init__(
        self, index: int, function: Callable[[int], Any], enter: Callable[[], Any], held: Held | None = None
    ) -> None:
        self.index = index
        self.held = held
        self.value: Any = None
        self.merge: Callable[[list[Any]], Any] = list
        self.ended = False
        self.error: BaseException | None = None
        self._function = function
        self._enter = enter
        self._abandoned = False
        self._go = threading.Semaphore(0)
        self._back = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, name=f"dtf-replica-{index}", daemon=True)
        self._thread.start()

    def resume(self) -> None:
        """Run the replica until it pauses or ends."""
        self._go.release()
        self._back.acquire()

    def pause(self, value: Any, merge: Callable[[list[Any]], Any]) -> Any:
        """Hand over ``value``, wait to be resumed, and return the merged value. Called in the replica's thread."""
        self.value, self.merge = value, merge
        self._back.release()
        self._wait()
        return self.value

    def abandon(self) -> None:
        """End the replica's thread, even if it is waiting at a barrier."""
        if not self.ended:
            self._abandoned = True
            self.resume()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._wait()
            with self._enter():
                self.value = self._function(self.index)
        except _Abandoned:
            pass
        except BaseException as error:
            self.error = error
        self.ended = True
        self._back.release()

    def _wait(self) -> None:
        self._go.acquire()
        if self._abandoned:
            raise _Abandoned


def _surroundings(graph: Any) -> Callable[[], Any]:
    """Return a function that returns a context manager. Inside it, another thread has the TensorFlow and Keras state
    that this thread has now.
    """
    keras_state = dict(vars(GLOBAL_STATE_TRACKER))

    @contextmanager
    def enter() -> Iterator[None]:
        stacks = {name: list(each) for name, each in keras_state.items() if name.endswith("_stack") and each}
        vars(GLOBAL_STATE_TRACKER).update({**keras_state, **stacks})
        if graph is None:
            yield
        else:
            with graph.as_default():
                yield

    return enter
