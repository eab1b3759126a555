"""Notifications about a run (``notify=``). ``backend/cluster/alarms.py`` detects their conditions."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable
from typing import Any

import msgspec

from ..errors import InvalidInput
from .arguments import is_integer, make_plain
from .base import PeerStruct

MOST_KEPT = 20
"""The largest number of alarms in a run's summary. Only the newest ones are kept."""

NAN, NO_IMPROVEMENT, IDLE, MEMORY, END = "nan", "no improvement", "idle", "memory", "end"
"""The conditions reported by alarms."""


class Alarm(PeerStruct):
    """A notification about a run."""

    about: str
    """The condition: ``nan``, ``no improvement``, ``idle``, ``memory`` or ``end``."""
    title: str
    text: str = ""
    task: str = ""
    time: float = 0.0
    """The time at which the condition was detected, in seconds since the epoch."""


class Notify(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The conditions of which the user is notified, in the run's cell, in JupyterLab, and by ``call`` or ``command``.

    None and False turn a condition off.

    Attributes:
        nan: Notify when a metric becomes NaN or infinite.
        no_improvement: Notify when ``metric`` has not improved for this many consecutive epochs.
        metric: The metric for ``no_improvement``. By default the validation loss, or the loss if there is none.
        idle_s: Notify when a task's GPUs (or its host's CPUs, if it has none) have been idle for this many seconds.
        memory: Notify when a host uses more than this fraction of its memory. Does not apply to GPU memory, which
            TensorFlow allocates all at once.
        end: Notify when the run has ended, successfully or not.
        call: A function that is called with each ``Alarm`` (``about``, ``title``, ``text``, ``task``, ``time``), in a
            thread of the process that started the run, while that process is running.
        command: A command, as a list of words or a command line, that the same process runs for each alarm, without a
            shell and with the alarm's title as the last argument.

    Raises:
        InvalidInput: If a value is invalid.

    Example:
        >>> cluster.fit(model, x, y, notify=dtf.Notify(no_improvement=5, call=lambda alarm: print(alarm.title)))
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
        make_plain(self)
        for name, flag in (("nan", self.nan), ("end", self.end)):
            if not isinstance(flag, bool):
                raise _refusal(name, "True or False", flag)
        epochs = self.no_improvement
        if epochs is not None and (not is_integer(epochs) or epochs < 1):
            raise _refusal("no_improvement", "a number of epochs >= 1, or None", epochs)
        if not isinstance(self.metric, str):
            raise _refusal("metric", "the name of a metric", self.metric)
        if self.metric and epochs is None:
            raise InvalidInput(
                f"`metric` requires no_improvement, which is not set, got {self.metric!r:.100}",
                field="notify.metric",
            )
        if self.idle_s is not None and not (_is_number(self.idle_s) and 1 <= self.idle_s < math.inf):
            raise _refusal("idle_s", "a number of seconds >= 1, or None", self.idle_s)
        if self.memory is not None and not (_is_number(self.memory) and 0 < self.memory < 1):
            raise _refusal("memory", "a fraction between 0 and 1, or None", self.memory)
        if self.call is not None and not callable(self.call):
            raise _refusal("call", "a function that takes an alarm, or None", self.call)
        words = self.command
        if not isinstance(words, str) and not (
            isinstance(words, (list, tuple)) and all(isinstance(word, str) for word in words)
        ):
            raise _refusal("command", "a list of words, or a command line", words)
        try:
            self.words  # noqa: B018 - raises for an unclosed quotation
        except ValueError as error:
            raise _refusal("command", f"a valid command line ({error})", words) from None

    @property
    def words(self) -> list[str]:
        """The command as a list of words; empty if there is none."""
        return shlex.split(self.command) if isinstance(self.command, str) else list(self.command)

    @property
    def for_cluster(self) -> Notify:
        """A copy without ``call`` and ``command``, which only this process uses."""
        return msgspec.structs.replace(self, call=None, command="")


def as_notify(value: Notify | Callable[[Alarm], object] | bool) -> Notify | None:
    """Convert the argument ``notify=``: a ``Notify``, a function to call, True for the default, or False for None.

    Raises InvalidInput.
    """
    if isinstance(value, Notify):
        return value
    if isinstance(value, bool):
        return Notify() if value else None
    if callable(value) and not isinstance(value, type(Notify)):
        return Notify(call=value)
    raise InvalidInput(
        f"`notify` must be a dtf.Notify, True, False, or a function that takes an alarm, got {value!r:.100}",
        field="notify",
    )


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _refusal(name: str, rule: str, value: object) -> InvalidInput:
    return InvalidInput(f"`{name}` must be {rule}, got {value!r:.100}", field=f"notify.{name}")
