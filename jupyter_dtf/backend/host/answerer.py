"""Partitions of Dask collections answered by a model, in whatever process Dask computes them.

TensorFlow stays out of that process: a host's event loop would stand still while it is imported, and its memory would
never be given back. It has one process of its own for all its partitions (``backend/task/answers/answerer.py``), which
is started by the first, has the model loaded once, and ends when nothing has come for a while.
"""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from multiprocessing.connection import Connection
from typing import Any

from ...errors import DtfError, InvalidInput
from ...schema import payload
from ..machine import children

_lock = threading.Lock()
_answerer: _Answerer | None = None


class ModelFailed(DtfError):
    """A model could not answer a partition. The traceback is in the output of the Dask worker."""


def answers(model: tuple[str, bytes], number: int, x: Any, batch_size: int | None) -> list[Any]:
    """The outputs, NumPy arrays, of a model for partition ``number``, which is ``x``.

    ``model``: its digest, and the payload of ``(packed, keras_config)``. Raises InvalidInput and ModelFailed, which
    name the partition.
    """
    global _answerer
    with _lock:
        for is_last in (False, True):
            if _answerer is None or not _answerer.lives:
                _answerer = _Answerer()
            try:
                answer = _answerer.ask(model, x, batch_size)
                break
            except (EOFError, OSError):
                # It has ended for want of work at this moment, or was killed.
                _answerer.end()
                _answerer = None
                if is_last:
                    raise ModelFailed(
                        f"The process that answers partition {number} has died, twice: for want of memory perhaps"
                    ) from None
    if answer[0] == "failed":
        raise ModelFailed(f"Partition {number} cannot be answered: {answer[1]}")
    outputs: list[Any] = answer[1]
    return outputs


class _Answerer:
    """The process, and the connection to it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self._known: set[str] = set()
        with theirs:
            descriptor = theirs.fileno()
            self._process = subprocess.Popen(
                children.command("jupyter_dtf.backend.task.answers.answerer", str(descriptor), str(_threads())),
                pass_fds=[descriptor],
                stdin=subprocess.DEVNULL,
                env=children.environment({"TF_CPP_MIN_LOG_LEVEL": os.environ.get("TF_CPP_MIN_LOG_LEVEL", "3")}),
            )
        self._line = Connection(ours.detach())

    @property
    def lives(self) -> bool:
        return self._process.poll() is None

    def ask(self, model: tuple[str, bytes], x: Any, batch_size: int | None) -> tuple[Any, ...]:
        """Raises EOFError or OSError where the process has ended."""
        digest, data = model
        while True:
            if digest not in self._known:
                packed, keras_config = payload.unpack(data)
                self._line.send_bytes(payload.pack(("model", digest, packed, keras_config)))
                self._known.add(digest)
            self._line.send_bytes(payload.pack(("predict", digest, x, batch_size)))
            answer: tuple[Any, ...] = payload.unpack(bytearray(self._line.recv_bytes()))
            if answer[0] != "unknown":
                return answer
            self._known.discard(digest)

    def end(self) -> None:
        """End it, and wait until it has."""
        self._line.close()
        self._process.kill()
        self._process.wait()


def _threads() -> int:
    """Those of the Dask worker that this is, or of the machine."""
    try:
        from distributed import get_worker

        return int(get_worker().state.nthreads)
    except (ImportError, ValueError):
        return len(os.sched_getaffinity(0))


def check_examples(count: int, outputs: list[Any], number: int) -> None:
    """Raise InvalidInput unless every output has one row for each of the examples of a partition."""
    for output in outputs:
        if not output.ndim or len(output) != count:
            raise InvalidInput(
                f"Every output must have one row for each example, {count} in partition {number}, got one of shape "
                f"{output.shape}"
            )
