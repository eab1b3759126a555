"""The error classes that Horovod's programs catch: those of ``tf.errors``, in addition to this package's own."""

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
    """A value is invalid; also an instance of what Horovod's operations raise in that case."""

    def __init__(self, message: str, *, field: str = "") -> None:
        tf.errors.InvalidArgumentError.__init__(self, None, None, message)
        self.field = field


class NotOffered(InvalidInput, NotImplementedError):
    """Something that Horovod does not support either, for which it raises NotImplementedError."""


class _FailedInGraph(tf.errors.FailedPreconditionError, tf.errors.UnknownError):
    """The error of a graph's operation when tasks have made different calls.

    TensorFlow turns Python errors in a graph into UnknownError.
    """

    def __init__(self, node_def: Any, op: Any, message: Any, *args: Any) -> None:
        tf.errors.OpError.__init__(self, node_def, op, message, tf.errors.FAILED_PRECONDITION)


def as_horovods(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function so that for invalid values, it raises the same as Horovod's."""

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
    """Make a graph's error for different calls of tasks also a FailedPreconditionError, as in Horovod.

    Further calls have no effect.
    """
    unknown: Any = tf.errors.UnknownError
    if "__new__" in vars(unknown):
        return

    def new(cls: Any, node_def: Any = None, op: Any = None, message: Any = "", *args: Any, **kwargs: Any) -> Any:
        told = cls is unknown and RULE in str(message)
        return Exception.__new__(_FailedInGraph if told else cls, node_def, op, message, *args)

    unknown.__new__ = new
