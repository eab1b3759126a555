"""Error classes for programs that catch Horovod's errors: they derive from ``tf.errors`` and this package's errors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import tensorflow as tf

from ...backend.task.collectives.calls import RULE
from ...errors import InvalidInput

P = ParamSpec("P")
R = TypeVar("R")


class InvalidArgument(InvalidInput, tf.errors.InvalidArgumentError):
    """Raised for an invalid value. Also derives from the error class that Horovod's operations raise in this case."""

    def __init__(self, message: str, *, field: str = "") -> None:
        tf.errors.InvalidArgumentError.__init__(self, None, None, message)
        self.field = field


class NotOffered(InvalidInput, NotImplementedError):
    """Raised for a feature that Horovod does not support either. Horovod raises NotImplementedError."""


class _FailedInGraph(tf.errors.FailedPreconditionError, tf.errors.UnknownError):
    """The error that an operation in a graph raises if tasks have made different calls.

    TensorFlow converts Python errors in a graph to UnknownError.
    """

    def __init__(self, node_def: Any, op: Any, message: Any, *args: Any) -> None:
        tf.errors.OpError.__init__(self, node_def, op, message, tf.errors.FAILED_PRECONDITION)


def as_horovods(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function so that it raises the same errors as Horovod for invalid values."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except (InvalidArgument, NotOffered):
            raise
        except InvalidInput as error:
            raise InvalidArgument(str(error), field=error.field) from None

    return wrapper


def restore_classes() -> None:
    """Make the error for different calls in a graph a FailedPreconditionError as well, as in Horovod.

    Further calls to this function have no effect.
    """
    unknown: Any = tf.errors.UnknownError
    if "__new__" in vars(unknown):
        return

    def new(cls: Any, node_def: Any = None, op: Any = None, message: Any = "", *args: Any, **kwargs: Any) -> Any:
        told = cls is unknown and RULE in str(message)
        return Exception.__new__(_FailedInGraph if told else cls, node_def, op, message, *args)

    unknown.__new__ = new
