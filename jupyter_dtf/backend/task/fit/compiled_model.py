"""Detects that a callback has compiled the model again, or made its train function again, during training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from ....errors import InvalidInput


class Unchanged(keras.callbacks.Callback):
    """A callback that runs after the caller's callbacks (``own``), and raises InvalidInput if they have replaced parts
    of the model that the tasks have prepared for distributed training.

    ``may_make``: whether callbacks may replace the train function, because one client trains and traces it anew.
    """

    def __init__(self, own: Sequence[Any], *, may_make: bool) -> None:
        super().__init__()
        self._own = own
        self._may_make = may_make
        self._expected: tuple[Any, Any, Any] = (None, None, None)

    def expect(self, model: Any) -> None:
        """Remember the parts of ``model`` that must not be replaced from now on."""
        self._expected = (model._compile_config, model.optimizer, model.train_function)

    def on_train_begin(self, logs: Any = None) -> None:
        self._check()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._check()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._check()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._check()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._check()

    def on_train_end(self, logs: Any = None) -> None:
        self._check()

    def _check(self) -> None:
        config, optimizer, function = self._expected
        if self.model._compile_config is not config or self.model.optimizer is not optimizer:
            raise self._error("compile the model", "its optimizer and losses")
        if self.model.train_function is not function and not self._may_make:
            raise self._error("create the train function", "its train function")

    def _error(self, what: str, prepared: str) -> InvalidInput:
        names = ", ".join(sorted({type(callback).__name__ for callback in self._own})) or "none"
        return InvalidInput(
            f"`callbacks` must not {what} again during training, because the tasks have prepared {prepared} for "
            f"distributed training, but one of these did: {names}. Call fit once for each phase instead, and change "
            "the model in between",
            field="callbacks",
        )
