"""What a person wants to be told of a run while nobody looks (``notify=``); ``backend/cluster/alarms.py`` finds it."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable
from typing import Any

import msgspec

from ..errors import InvalidInput
from .base import PeerStruct

MOST_KEPT = 20
"""So many alarms a run's summary has, the newest."""

NAN, NO_IMPROVEMENT, IDLE, MEMORY, END = "nan", "no improvement", "idle", "memory", "end"
"""What alarms are about."""


class Alarm(PeerStruct):
    """Something that a person wanted to be told of."""

    about: str
    """``nan``, ``no improvement``, ``idle``, ``memory`` or ``end``."""
    title: str
    text: str = ""
    task: str = ""
    time: float = 0.0
    """When it was noticed, in seconds since the epoch."""


class Notify(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is told of a run: in its cell, in JupyterLab, and by ``call`` or ``command``.

    ``nan``: a metric is NaN or infinite for the first time. ``no_improvement``: so many epochs in a row have not made
    ``metric`` better, by default the validation loss, or the loss where there is none. ``idle_s``: a device of a task
    (its GPUs, or its host's processors where it has none) has done nothing for so many seconds. ``memory``: a host has
    more than that part of its memory in use; not its GPUs', of which TensorFlow takes all at once. ``end``: the run has
    ended, however it did. None and False: that is not told.

    ``call(alarm)`` is called with an ``Alarm`` (``about``, ``title``, ``text``, ``task``, ``time``), in a thread of the
    process that started the run; ``command``, a list of words or a line, is run by it without a shell, with the title
    as its last argument. Neither is once that process has ended; JupyterLab tells all the same.

    Raises InvalidInput for other values.
    """

    nan: bool = True
    no_improvement: int | None = None
    metric: str = ""
    idle_s: float | None = 120.0
    memory: float | None = 0.9
    end: bool = True
    call: Any = None
    command: list[str] | str = ""

    def __post_init__(self) -> None:
        for name, flag in (("nan", self.nan), ("end", self.end)):
            if not isinstance(flag, bool):
                raise _refusal(name, "True or False", flag)
        epochs = self.no_improvement
        if epochs is not None and (isinstance(epochs, bool) or not isinstance(epochs, int) or epochs < 1):
            raise _refusal("no_improvement", "a whole number of epochs, 1 or more, or None", epochs)
        if not isinstance(self.metric, str):
            raise _refusal("metric", "the name of a metric", self.metric)
        if self.metric and epochs is None:
            raise _refusal("metric", "given with no_improvement, whose metric it is", self.metric)
        if self.idle_s is not None and not (_is_number(self.idle_s) and 1 <= self.idle_s < math.inf):
            raise _refusal("idle_s", "a number of seconds, 1 or more, or None", self.idle_s)
        if self.memory is not None and not (_is_number(self.memory) and 0 < self.memory < 1):
            raise _refusal("memory", "a part of the memory, between 0 and 1, or None", self.memory)
        if self.call is not None and not callable(self.call):
            raise _refusal("call", "a function of an alarm, or None", self.call)
        words = self.command
        if not isinstance(words, str) and not (
            isinstance(words, (list, tuple)) and all(isinstance(word, str) for word in words)
        ):
            raise _refusal("command", "a command's words, or a line of them", words)
        try:
            self.words  # noqa: B018 - which may be an open quotation
        except ValueError as error:
            raise _refusal("command", f"a line of words ({error})", words) from None

    @property
    def words(self) -> list[str]:
        """The command as a list of words; empty where there is none."""
        return shlex.split(self.command) if isinstance(self.command, str) else list(self.command)

    @property
    def for_cluster(self) -> Notify:
        """Without what is this process's own."""
        return msgspec.structs.replace(self, call=None, command="")


def as_notify(value: Notify | Callable[[Alarm], object] | bool) -> Notify | None:
    """``notify=`` as a person writes it: a ``Notify``, True (as it is by default), a function. Raises InvalidInput."""
    if isinstance(value, Notify):
        return value
    if isinstance(value, bool):
        return Notify() if value else None
    if callable(value):
        return Notify(call=value)
    raise InvalidInput(
        f"notify is a dtf.Notify, True, False, or a function of an alarm. Received: {value!r:.100}", field="notify"
    )


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _refusal(name: str, rule: str, value: object) -> InvalidInput:
    return InvalidInput(f"{name} must be {rule}. Received: {value!r:.100}", field=f"notify.{name}")
