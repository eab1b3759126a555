"""What the designer in the browser asks a kernel: which Keras models it has, what one is made of, what it takes.

The browser evaluates these as expressions beside an empty cell and reads the JSON form of what they return.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

import __main__

from ..errors import InvalidInput


@dataclass(frozen=True, repr=False)
class Answer:
    """Plain data that IPython shows as JSON."""

    data: Any

    def _repr_json_(self) -> Any:
        return self.data


def models(namespace: Mapping[str, Any] | None = None) -> Answer:
    """The models among the user's variables, and after them the functions of the user's that may make one.

    Such a function takes no arguments that it needs. Nothing is imported or called: without Keras there are no models.
    """
    keras = sys.modules.get("keras")
    kind = getattr(keras, "Model", None)
    found = []
    functions = []
    for name, value in list(_variables(namespace).items()):
        if name.startswith("_"):
            continue
        if kind is not None and isinstance(value, kind):
            found.append(_row(name, "model", type(value).__name__, value.count_params() if value.built else 0))
        elif inspect.isfunction(value) and value.__module__ == "__main__" and _needs_nothing(value):
            functions.append(_row(name, "function", "", 0))
    return Answer(found + functions)


def describe(name: str, namespace: Mapping[str, Any] | None = None, *, call: bool = False) -> Answer:
    """The layers (``schema.graph.LayerGraph``) of the variable of this name, and why a pipeline would not train it.

    ``call``: a person has chosen it, so that a function is called for its model. Raises InvalidInput.
    """
    from ..backend.task.fit.pipeline.checks import refused_as_drawn
    from ..client.model_placement import describe

    model = _model(name, namespace, call)
    graph = describe(model)
    if hasattr(model, "compiled"):
        graph = msgspec.structs.replace(graph, refusals=refused_as_drawn(model))
    return Answer(msgspec.to_builtins(graph))


def calibrate(
    name: str,
    cluster: str,
    batch_size: int,
    microbatches: int,
    namespace: Mapping[str, Any] | None = None,
    *,
    call: bool = False,
) -> Answer:
    """What a model takes on a cluster (``schema.placement.Calibration``). Nothing is shown meanwhile.

    ``call`` as in ``describe``. Raises InvalidInput, NotFound and RunFailed.
    """
    from ..client.known import connect
    from ..client.model_placement import calibration_of, start_profile

    run = start_profile(_model(name, namespace, call), connect(cluster), batch_size, microbatches)
    return Answer(msgspec.to_builtins(calibration_of(run, batch_size, microbatches)))


def _model(name: str, namespace: Mapping[str, Any] | None, call: bool) -> Any:
    """The variable of this name, or what it makes if it is a function.

    A design that comes from somebody else may name any function: that it names one is no reason to call it.
    """
    variables = _variables(namespace)
    if name not in variables:
        raise InvalidInput(f"The kernel has a variable of this name. Received: {name!r}", field="name")
    value = variables[name]
    if inspect.isfunction(value) and not call:
        raise InvalidInput(
            f"A function must be chosen in the list of models to be called, got {name!r:.100}, which the design names",
            field="name",
        )
    return value() if inspect.isfunction(value) else value


def _row(name: str, kind: str, type_: str, parameters: int) -> dict[str, Any]:
    return {"name": name, "kind": kind, "type": type_, "parameters": int(parameters)}


def _variables(namespace: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return vars(__main__) if namespace is None else namespace


def _needs_nothing(function: Any) -> bool:
    return all(
        parameter.default is not parameter.empty or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        for parameter in inspect.signature(function).parameters.values()
    )
