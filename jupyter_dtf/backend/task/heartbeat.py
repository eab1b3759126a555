"""A task's heartbeat: a thread reports twice a second how far the program has progressed, and whether it is waiting for
other tasks or saving.

The thread reports regardless of what the program does, unless the program holds the GIL. A stopped process sends
nothing.
"""

from __future__ import annotations

import threading
import time

import msgspec

from ...schema.frames import BEAT_S, Beat
from .checkpoint import save_state
from .recorder import Recorder

_LATELY_S = 1.0
_encode = msgspec.msgpack.Encoder().encode
_waited = -_LATELY_S


def waits_for_others() -> None:
    """Record that this task is waiting for other tasks in a collective. Must be called regularly during the wait."""
    global _waited
    _waited = time.monotonic()


def begin(recorder: Recorder) -> None:
    """Start sending heartbeats."""
    threading.Thread(target=_beat, args=(recorder,), name="dtf-pulse", daemon=True).start()


def _beat(recorder: Recorder) -> None:
    while True:
        save_state.changed.wait(BEAT_S)  # wait first, so that the host's first read contains the task's own events
        save_state.changed.clear()
        waits = time.monotonic() - _waited < _LATELY_S
        recorder.beat(_encode(Beat(recorder.reported, waits, save_state.is_saving(), *recorder.pace)))
