"""A task's sign of life: a thread of its own says twice a second how far the program is, and whether it waits.

What the program does meanwhile does not matter, unless it keeps the interpreter from its threads. A process that is
stopped says nothing.
"""

from __future__ import annotations

import threading
import time

import msgspec

from ...schema.frames import BEAT_S, Beat
from .checkpoint import saving
from .recorder import Recorder

_LATELY_S = 1.0
_encode = msgspec.msgpack.Encoder().encode
_waited = -_LATELY_S


def waits_for_others() -> None:
    """To be called every now and then while this task waits for others in a collective."""
    global _waited
    _waited = time.monotonic()


def begin(recorder: Recorder) -> None:
    """Beat from now on."""
    threading.Thread(target=_beat, args=(recorder,), name="dtf-pulse", daemon=True).start()


def _beat(recorder: Recorder) -> None:
    while True:
        saving.changed.wait(BEAT_S)  # first what the task itself has to say: the host reads, and then not for a moment
        saving.changed.clear()
        waits = time.monotonic() - _waited < _LATELY_S
        recorder.beat(_encode(Beat(recorder.reported, waits, saving.is_saving(), *recorder.pace)))
