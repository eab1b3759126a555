"""Training that goes back to its last commit when a collective fails.

The gang keeps its size. A task that raises HorovodInternalError takes part again when all have gone back; one whose
process dies ends the run, unless that was asked to start all tasks again (``restart=dtf.Restart()``).
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf

from ...backend.task.collectives import communicator, ops
from ...backend.task.context import current
from ...errors import InvalidInput
from .collectives import broadcast_object, broadcast_variables
from .elastic_callbacks import CommitStateCallback, UpdateBatchStateCallback, UpdateEpochStateCallback
from .exceptions import HorovodInternalError, HostsUpdatedInterrupt

__all__ = [
    "CommitStateCallback",
    "HorovodInternalError",
    "HostsUpdatedInterrupt",
    "KerasState",
    "ObjectState",
    "State",
    "TensorFlowKerasState",
    "TensorFlowState",
    "UpdateBatchStateCallback",
    "UpdateEpochStateCallback",
    "run",
]

Result = TypeVar("Result")


class State(ABC):
    """What must survive a failed collective. Subclasses say how it is saved, restored and sent to all tasks."""

    def __init__(self) -> None:
        self._reset_callbacks: list[Callable[[], Any]] = []

    def register_reset_callbacks(self, callbacks: Sequence[Callable[[], Any]]) -> None:
        """Functions to be called after tasks have gone back, before they train on."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def commit(self) -> None:
        """Keep what is now; a failure comes back to here. Copies everything, so rather not at every batch."""
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:  # noqa: B027
        """Horovod looks here for hosts that came or went; in a gang none does."""

    @abstractmethod
    def save(self) -> None:
        """Keep a copy of what is now."""

    @abstractmethod
    def restore(self) -> None:
        """Back to the last commit."""

    @abstractmethod
    def sync(self) -> None:
        """Everyone takes rank 0's state. A collective."""

    def reset(self) -> None:  # noqa: B027
        """For subclasses: make anew what a failure has spoilt."""


class ObjectState(State):
    """Picklable objects, given by name and held as attributes of those names."""

    def __init__(self, **objects: Any) -> None:
        super().__init__()
        self._saved = objects
        self._set()

    def save(self) -> None:
        self._saved = {name: getattr(self, name) for name in self._saved}

    def restore(self) -> None:
        self._set()

    def sync(self) -> None:
        if self._saved:
            self._saved = broadcast_object({name: getattr(self, name) for name in self._saved}, root_rank=0)
            self._set()

    def _set(self) -> None:
        for name, value in self._saved.items():
            setattr(self, name, value)


class TensorFlowState(ObjectState):
    """Variables, and objects by name."""

    def __init__(self, variables: Sequence[Any], session: Any = None, **objects: Any) -> None:
        if session is not None:
            raise InvalidInput("States are kept in eager mode: there is no session. Received one", field="session")
        super().__init__(**objects)
        self.variables = list(variables)
        self._values = self._read()

    def save(self) -> None:
        self._values = self._read()
        super().save()

    def restore(self) -> None:
        for variable, value in zip(self._variables(), self._values, strict=True):
            variable.assign(value)
        super().restore()

    def sync(self) -> None:
        broadcast_variables(self._variables(), root_rank=0)
        super().sync()
        self._values = self._read()

    def _variables(self) -> list[Any]:
        return self.variables

    def _read(self) -> list[np.ndarray[Any, Any]]:
        return [np.array(variable.numpy()) for variable in self._variables()]


class TensorFlowKerasState(TensorFlowState):
    """A Keras model that has been built, its optimizer (compiled in, or given), and objects by name."""

    def __init__(self, model: Any, optimizer: Any = None, backend: Any = None, **objects: Any) -> None:
        if not model.built:
            raise InvalidInput("The model is built: call model.build(input_shape) first. Received one that is not")
        self.model = model
        self.optimizer = optimizer or model.optimizer
        if self.optimizer is None:
            raise InvalidInput("A state needs an optimizer: compile the model, or pass one. Received: None")
        if not self.optimizer.built:
            self.optimizer.build(model.trainable_variables)
        super().__init__([], **objects)

    def _variables(self) -> list[Any]:
        return [*self.model.variables, *self.optimizer.variables]


KerasState = TensorFlowKerasState


def run(func: Callable[..., Result]) -> Callable[..., Result]:
    """Decorator of ``func(state, ...)``: gives all tasks rank 0's state, calls it, and starts over when it must.

    When ``func`` raises HorovodInternalError on one task, the others' collectives fail; all go back to their last
    commit, take rank 0's state, run the reset callbacks, and call ``func`` again. It returns what ``func`` returns.
    """

    @functools.wraps(func)
    def wrapper(state: State, *args: Any, **kwargs: Any) -> Result:
        sync = True
        while True:
            try:
                if sync:
                    state.sync()
                result = func(state, *args, **kwargs)
                ops.barrier()  # nobody leaves while another may want to go back
                return result
            except HostsUpdatedInterrupt as interrupt:
                sync = not interrupt.skip_sync
            except (RuntimeError, tf.errors.OpError) as error:
                if isinstance(error, HorovodInternalError):
                    current().note("warning", "Back to the last commit", str(error))
                elif not communicator.interrupted():
                    raise
                state.restore()
                sync = True
            communicator.renew()
            state.on_reset()

    return wrapper
