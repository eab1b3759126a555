"""Training that returns to its last commit when a collective fails.

The number of tasks does not change. A task that raises HorovodInternalError takes part again when all tasks have
returned to their last commit. If the process of a task dies, the run ends, unless it was started with
``restart=dtf.Restart()``, which restarts all tasks.
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
    """State that must survive failed collectives. Subclasses define how it is saved, restored and sent to all tasks."""

    def __init__(self) -> None:
        self._reset_callbacks: list[Callable[[], Any]] = []

    def register_reset_callbacks(self, callbacks: Sequence[Callable[[], Any]]) -> None:
        """Add functions that are called after tasks have returned to a commit, before they continue training."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def commit(self) -> None:
        """Save the state that is restored after a failure. Copies everything, so avoid calling this for every batch."""
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:  # noqa: B027
        """Do nothing. Horovod checks for added or removed hosts; here, the number of tasks does not change."""

    @abstractmethod
    def save(self) -> None:
        """Keep a copy of the current state."""

    @abstractmethod
    def restore(self) -> None:
        """Return to the last commit."""

    @abstractmethod
    def sync(self) -> None:
        """Send the state of rank 0 to all tasks. Every task must call this."""

    def reset(self) -> None:  # noqa: B027
        """Recreate objects that a failure has made invalid. Does nothing unless a subclass overrides it."""


class ObjectState(State):
    """A state of picklable objects, passed as keyword arguments and stored as attributes with the same names."""

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
    """A state of variables and named objects."""

    def __init__(self, variables: Sequence[Any], session: Any = None, **objects: Any) -> None:
        if session is not None:
            raise InvalidInput("`session` must be None, because states are kept in eager mode", field="session")
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
    """A state of a built Keras model, its optimizer (by default the one given to ``compile``), and named objects."""

    def __init__(self, model: Any, optimizer: Any = None, backend: Any = None, **objects: Any) -> None:
        if not model.built:
            raise InvalidInput("`model` must be built: call model.build(input_shape) first")
        self.model = model
        self.optimizer = optimizer or model.optimizer
        if self.optimizer is None:
            raise InvalidInput("`optimizer` must be given, or the model must be compiled with one")
        if not self.optimizer.built:
            self.optimizer.build(model.trainable_variables)
        super().__init__([], **objects)

    def _variables(self) -> list[Any]:
        return [*self.model.variables, *self.optimizer.variables]


KerasState = TensorFlowKerasState


def run(func: Callable[..., Result]) -> Callable[..., Result]:
    """Decorate ``func(state, ...)`` so that it starts with rank 0's state in all tasks, and restarts after a failure.

    If ``func`` raises HorovodInternalError in one task, the collectives of the other tasks fail. All tasks then return
    to their last commit, call the reset callbacks, receive rank 0's state, and call ``func`` again.

    Args:
        func: The training function, whose first argument is a ``State``.

    Returns:
        A function with the same arguments and result.
    """

    @functools.wraps(func)
    def wrapper(state: State, *args: Any, **kwargs: Any) -> Result:
        sync = True
        while True:
            try:
                if sync:
                    state.sync()
                result = func(state, *args, **kwargs)
                ops.barrier()  # no task leaves while another one may need to return to a commit
                return result
            except HostsUpdatedInterrupt as interrupt:
                sync = not interrupt.skip_sync
            except (RuntimeError, tf.errors.OpError) as error:
                if isinstance(error, HorovodInternalError):
                    current().note("warning", "Returned to the last commit", str(error))
                elif not communicator.interrupted():
                    raise
                state.restore()
                sync = True
            communicator.renew()
            state.on_reset()

    return wrapper
