"""How a task's process goes over to the next attempt of its run, when other tasks are lost and this one lives.

The program says that it can. When a collective fails because another task has gone, it waits here for its host's word:
what the next attempt is like. That may also come first, and then ends whatever the task waits for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from ...schema.launch import TaskSpec
from .recorder import Recorder


class GoingOver:
    """One task's. ``may``: whether its run would have another attempt. Used by the program and the control thread."""

    def __init__(self, recorder: Recorder, *, may: bool) -> None:
        self.may = may
        self.on_call: Callable[[], None] = lambda: None
        """Called in another thread when the host's word has come: whoever waits in a collective shall look."""
        self._recorder = recorder
        self._is_able = False
        self._next: TaskSpec | None = None
        self._changed = threading.Condition()

    @property
    def is_able(self) -> bool:
        """Whether the program has said that it can."""
        return self._is_able

    def say(self, able: bool) -> None:
        """From here on the program can go over, or cannot."""
        able = able and self.may
        if able != self._is_able:
            self._is_able = able
            self._recorder.say_able(able)

    @property
    def is_called(self) -> bool:
        """Whether there is a new attempt, in which others have the places of some of this one."""
        return self._next is not None

    def call(self, spec: TaskSpec) -> None:
        """The host's word. A later one takes the place of one that nobody has heard yet."""
        with self._changed:
            self._next = spec
            self._changed.notify_all()
        self.on_call()

    def await_call(self) -> TaskSpec:
        """What the next attempt is like, when the host has said it. A run that is to have none ends this process."""
        with self._changed:
            self._changed.wait_for(lambda: self._next is not None)
            spec, self._next = self._next, None
        assert spec is not None
        return spec
