"""Adds the number of the failed batch of training or validation data to the message of a TensorFlow error."""

from __future__ import annotations

import re
from typing import Any

import keras
import tensorflow as tf

_DRAWN = "IteratorGetNext"
"""The operation that reads a batch. The message of every error in a dataset contains its name."""
_OF_PYTHON = "PyFunc"
_WHERE = re.compile(
    r'Graph execution error:|Detected at node .*|<stack traces unavailable>|  File ".*|\s*\[\[.*\]\].*'
    r"|\d+ root error\(s\) found\.|\s*"
)
_AROUND = re.compile(r"^\s*\(0\) [A-Z_]+:\s*|^\{\{function_node [^}]*\}\}\s*|\s*\[Op:[^\]]*\](\s*name:.*)?$")
_MOST = 500


class BatchPlace(keras.callbacks.Callback):
    """A callback that tracks the position of a ``fit`` run: the epoch, and the batch that is being read or computed."""

    def __init__(self, what: str, validation: str, steps_per_execution: int = 1) -> None:
        """Create the callback. ``what``, ``validation``: the names that messages use for the training and validation
        data.
        """
        super().__init__()
        self._names = what, validation
        self._together = steps_per_execution
        self._epoch = self._batch = 0
        self._validates = False

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._validates, self._batch = False, batch

    def on_test_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._validates, self._batch = True, batch

    def named(self, error: BaseException) -> RuntimeError | None:
        """Return an error whose message names the batch, or None if data did not cause the error."""
        if not isinstance(error, tf.errors.OpError):
            return None
        message = str(error.message)
        is_of_data = _DRAWN in message
        if not is_of_data and (not isinstance(error, tf.errors.InvalidArgumentError) or _OF_PYTHON in message):
            return None
        first, last = self._batch + 1, self._batch + self._together
        which = f"Batch {first}" if first == last else f"One of the batches {first} to {last}"
        failed = "could not be read" if is_of_data else "could not be processed by the model"
        return RuntimeError(
            f"{which} of epoch {self._epoch + 1} of {self._names[self._validates]} {failed}: {essence(message)}"
        )


def essence(message: str) -> str:
    """Return TensorFlow's error message without the locations in graphs and files."""
    said: list[str] = []
    for line in message.splitlines():
        if line.startswith("Traceback (most recent call last)") or (said and re.match(r"\s*\(1\) ", line)):
            break
        if not _WHERE.fullmatch(line):
            said.append(_AROUND.sub("", _AROUND.sub("", line)).strip())
    return " ".join(filter(None, said))[:_MOST] or message.strip()[:_MOST]
