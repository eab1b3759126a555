"""Handover: a task's process continues in the next attempt of its run when other tasks are lost.

The program declares whether it supports a handover. When a collective fails because another task is gone, the program
waits here for its host to send the spec of the next attempt. If the spec arrives before the collective has failed, it
interrupts whatever the task is waiting for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from ...schema.launch import TaskSpec
from .recorder import Recorder


class GoingOver:
    """A task's handover state, used by the program and the control thread. ``may`` is whether a handover is allowed."""

    def __init__(self, recorder: Recorder, *, may: bool) -> None:
        self.may = may
        self.on_call: Callable[[], None] = lambda: None
        """Called in another thread when the spec has arrived, so that a waiting collective checks for it."""
        self._recorder = recorder
        self._is_able = False
        self._next: TaskSpec | None = None
        self._changed = threading.Condition()

    @property
    def is_able(self) -> bool:
        """Whether the program has declared that it can continue in the next attempt."""
        return self._is_able

    def say(self, able: bool) -> None:
        """Declare whether, from now on, the program can continue in the next attempt."""
        able = able and self.may
        if able != self._is_able:
            self._is_able = able
            self._recorder.say_able(able)

    @property
    def is_called(self) -> bool:
        """Whether the spec of a new attempt, in which new tasks replace lost ones, has arrived but is still unused."""
        return self._next is not None

    def call(self, spec: TaskSpec) -> None:
        """Store the spec of the next attempt. It replaces an earlier one that has not been used yet."""
        with self._changed:
            self._next = spec
            self._changed.notify_all()
        self.on_call()

    def await_call(self) -> TaskSpec:
        """Wait for the spec of the next attempt and return it. If there is no next attempt, this process is killed."""
        with self._changed:
            self._changed.wait_for(lambda: self._next is not None)
            spec, self._next = self._next, None
        assert spec is not None
        return spec
