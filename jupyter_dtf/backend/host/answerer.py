"""Computes a model's predictions for partitions of Dask collections.

This is called in the process in which Dask computes a partition, usually a host. TensorFlow is not imported there,
because the import would block the event loop, and its memory would never be released. Instead, each such process starts
one child (``backend/task/answers/answerer.py``) for its first partition. The child loads the model once, predicts for
all later partitions, and exits when it has been idle for a while.
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
    """The model failed on a partition. The traceback is in the Dask worker's output."""


def answers(model: tuple[str, bytes], number: int, x: Any, batch_size: int | None) -> list[Any]:
    """Return the outputs of a model, as NumPy arrays, for partition ``number``.

    Args:
        model: The model's digest, and the payload of ``(packed, keras_config)``.
        number: The number of the partition, for error messages.
        x: The data of the partition.
        batch_size: The batch size to predict with; None leaves the choice to the separate process.

    Raises:
        ModelFailed: If the process died twice, or the model failed. The message names the partition.
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
                # The process has just exited because it was idle, or it was killed.
                _answerer.end()
                _answerer = None
                if is_last:
                    raise ModelFailed(
                        f"The process that predicts for partition {number} has died twice, possibly for lack of memory"
                    ) from None
    if answer[0] == "failed":
        raise ModelFailed(f"The model failed on partition {number}: {answer[1]}")
    outputs: list[Any] = answer[1]
    return outputs


class _Answerer:
    """The process that holds the model, and the connection to it."""

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
        """Send a partition and return the reply. Raises EOFError or OSError if the process has exited."""
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
        """Kill the process and wait until it has exited."""
        self._line.close()
        self._process.kill()
        self._process.wait()


def _threads() -> int:
    """Return the number of threads of this Dask worker or, outside of a Dask worker, the number of CPUs."""
    try:
        from distributed import get_worker

        return int(get_worker().state.nthreads)
    except (ImportError, ValueError):
        return len(os.sched_getaffinity(0))


def check_examples(count: int, outputs: list[Any], number: int) -> None:
    """Raise InvalidInput unless every output has one row for each example of the partition."""
    for output in outputs:
        if not output.ndim or len(output) != count:
            raise InvalidInput(
                f"Every output must have one row for each example, {count} in partition {number}, got one of shape "
                f"{output.shape}"
            )
