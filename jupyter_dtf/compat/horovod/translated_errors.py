"""The classes of errors that Horovod's programs catch: those of ``tf.errors``, beside this package's own."""

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
    """A value breaks a rule; what Horovod's operations raise then."""

    def __init__(self, message: str, *, field: str = "") -> None:
        tf.errors.InvalidArgumentError.__init__(self, None, None, message)
        self.field = field


class NotOffered(InvalidInput, NotImplementedError):
    """Something that Horovod does not offer either, and says so by NotImplementedError."""


class _FailedInGraph(tf.errors.FailedPreconditionError, tf.errors.UnknownError):
    """What an operation of a graph fails with when tasks have called different things.

    TensorFlow knows no class of an error of Python in a graph but UnknownError.
    """

    def __init__(self, node_def: Any, op: Any, message: Any, *args: Any) -> None:
        tf.errors.OpError.__init__(self, node_def, op, message, tf.errors.FAILED_PRECONDITION)


def as_horovods(function: Callable[P, R]) -> Callable[P, R]:
    """The function, raising for invalid values what Horovod's raises."""

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
    """Let what tasks that called different things get from a graph be FailedPreconditionError too, as in Horovod.

    Calling it again changes nothing.
    """
    unknown: Any = tf.errors.UnknownError
    if "__new__" in vars(unknown):
        return

    def new(cls: Any, node_def: Any = None, op: Any = None, message: Any = "", *args: Any, **kwargs: Any) -> Any:
        told = cls is unknown and RULE in str(message)
        return Exception.__new__(_FailedInGraph if told else cls, node_def, op, message, *args)

    unknown.__new__ = new
