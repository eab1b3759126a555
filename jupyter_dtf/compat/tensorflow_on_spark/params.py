"""Parameters like those of Spark ML, and the program arguments with which they are merged."""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from ...errors import InvalidInput, Unavailable

Self = TypeVar("Self", bound="Params")


class Param:
    """A parameter of a class: its name, and a function that converts a value or raises InvalidInput."""

    def __init__(self, name: str, convert: Callable[[str, Any], Any]) -> None:
        self.name = name
        self.convert = convert

    def __repr__(self) -> str:
        return f"<Param {self.name}>"


class Params:
    """Values of parameters, and defaults for those that are not set."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._defaults: dict[str, Any] = {}

    @property
    def params(self) -> list[Param]:
        """The parameters, sorted by name."""
        found = {name: getattr(type(self), name) for name in dir(type(self))}
        return sorted((each for each in found.values() if isinstance(each, Param)), key=lambda param: param.name)

    def getOrDefault(self, param: Param | str) -> Any:
        """Return the value of a parameter. Raises InvalidInput if it has none."""
        name = param.name if isinstance(param, Param) else param
        for values in (self._values, self._defaults):
            if name in values:
                return values[name]
        raise InvalidInput(f"The parameter {name!r} must be set, because it has no default value", field=name)

    def isSet(self, param: Param | str) -> bool:
        """Return whether a value was set."""
        return (param.name if isinstance(param, Param) else param) in self._values

    def copy(self: Self, extra: Mapping[Param, Any] | None = None) -> Self:
        """Return a copy in which the parameters in ``extra`` have the values given there."""
        made = copy.copy(self)
        made._values = dict(self._values)
        return made._set(**{param.name: value for param, value in (extra or {}).items()})

    def _set(self: Self, **values: Any) -> Self:
        known = {param.name: param for param in self.params}
        for name, value in values.items():
            if name not in known:
                raise InvalidInput(f"A parameter must be one of {', '.join(known)}, got {name!r}", field=name)
            self._values[name] = known[name].convert(name, value)
        return self

    def _set_default(self, **values: Any) -> None:
        self._defaults.update(values)

    def _copy_values(self: Self, to: Any) -> Any:
        """Copy the values of all parameters that ``to`` also has, and return ``to``."""
        names = {param.name for param in to.params}
        return to._set(**{name: value for name, value in self._values.items() if name in names})


def as_int(name: str, value: Any) -> int:
    """Return the value as an integer. Raises InvalidInput unless it is a whole number >= 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value) or value < 0:
        raise InvalidInput(f"`{name}` must be an integer >= 0, got {value!r:.100}", field=name)
    return int(value)


def as_text(name: str, value: Any) -> str | None:
    """Return the value. Raises InvalidInput unless it is a string or None."""
    if value is not None and not isinstance(value, str):
        raise InvalidInput(f"`{name}` must be a string, got {value!r:.100}", field=name)
    return value


def as_bool(name: str, value: Any) -> bool:
    """Return the value. Raises InvalidInput unless it is a boolean."""
    if not isinstance(value, bool):
        raise InvalidInput(f"`{name}` must be True or False, got {value!r:.100}", field=name)
    return value


def as_dict(name: str, value: Any) -> dict[str, str]:
    """Return a copy of the value. Raises InvalidInput unless it is a dict from strings to strings."""
    if not isinstance(value, dict) or not all(isinstance(each, str) for pair in value.items() for each in pair):
        raise InvalidInput(f"`{name}` must be a dict of strings, got {value!r:.100}", field=name)
    return dict(value)


def as_input_mode(name: str, value: Any) -> int:
    """Return the value. Raises InvalidInput unless it is ``InputMode.SPARK``."""
    if value != 1:
        raise InvalidInput(
            f"`{name}` must be InputMode.SPARK, because a dataframe is fed, got {value!r:.100}", field=name
        )
    return 1


def as_protocol(name: str, value: Any) -> str:
    """Return the value. Raises Unavailable unless it is ``grpc``."""
    if value != "grpc":
        raise Unavailable(f"`{name}` must be 'grpc', because TensorFlow's servers use gRPC, got {value!r:.100}")
    return "grpc"


class Namespace:
    """Names and values from a dict, an ``argparse.Namespace``, another ``Namespace`` or a list of arguments (``argv``).

    ``"name" in namespace`` tests whether a name exists. Raises InvalidInput for an argument of any other type.
    """

    argv: list[str] | None = None

    def __init__(self, d: Any) -> None:
        if isinstance(d, list):
            self.argv = d
        elif isinstance(d, Mapping):
            vars(self).update(d)
        elif isinstance(d, (argparse.Namespace, Namespace)):
            vars(self).update(vars(d))
        else:
            raise InvalidInput(f"`d` must be a dict, a list of arguments or a namespace, got {type(d).__name__}")

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{name!r} is not one of {', '.join(self)}")

    def __iter__(self) -> Iterator[str]:
        return iter(self.argv if self.argv else vars(self))

    def __contains__(self, name: object) -> bool:
        return name in list(self)

    def __eq__(self, other: object) -> bool:
        if self.argv:
            return self.argv == (other.argv if isinstance(other, Namespace) else other)
        return isinstance(other, (Namespace, argparse.Namespace)) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Namespace({self.argv if self.argv else vars(self)!r})"


class TFParams(Params):
    """Program arguments, and parameters that override them."""

    args: Any = None

    def merge_args_params(self) -> Any:
        """Return a copy of the arguments, in which all parameters with a value are set."""
        merged = copy.copy(self.args)
        for param in self.params:
            if param.name in self._values or param.name in self._defaults:
                setattr(merged, param.name, self.getOrDefault(param))
        return merged
