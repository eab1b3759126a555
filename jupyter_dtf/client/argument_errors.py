"""Improves the errors for unknown keyword arguments: they suggest a similar name or list the accepted names."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def names_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function so that its TypeError for an unknown keyword argument suggests accepted names."""
    parameters = inspect.signature(function).parameters.values()
    known = [parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]

    def called(args: tuple[Any, ...]) -> str:
        """Return the name of the function, for a method with the class of the object, which may have inherited it."""
        is_method = "." in function.__qualname__
        return f"{type(args[0]).__name__}.{function.__name__}" if is_method else function.__name__

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                meant = f". Did you mean {near[0]!r}?" if near else f". It accepts {', '.join(known[1:])}"
                raise TypeError(f"{called(args)}() got an unexpected keyword argument {name!r}{meant}")
        return function(*args, **kwargs)

    return checked
