"""The kernel side of the designer: lists a kernel's Keras models, and describes and measures one.

The browser evaluates these functions as user expressions of an empty cell and reads their return values as JSON.
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
    """Return the models among the user's variables, followed by the user's functions that may return one.

    Such functions have no required arguments. Nothing is imported or called: without Keras there are no models.
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
    """Return the layers (``schema.graph.LayerGraph``) of a model variable, and why a pipeline could not train it.

    ``call``: whether a function may be called, because the user has chosen it. Raises InvalidInput.
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
    """Measure a model on a cluster (``schema.placement.Calibration``) without showing anything.

    ``call`` is as in ``describe``. Raises InvalidInput, NotFound and RunFailed.
    """
    from ..client.lookup import connect
    from ..client.model_placement import calibration_of, start_profile

    run = start_profile(_model(name, namespace, call), connect(cluster), batch_size, microbatches)
    return Answer(msgspec.to_builtins(calibration_of(run, batch_size, microbatches)))


def _model(name: str, namespace: Mapping[str, Any] | None, call: bool) -> Any:
    """Return the model variable with this name, or the model that it returns if it is a function.

    A design from someone else may name any function, so a function is not called merely because a design names it.
    """
    variables = _variables(namespace)
    if name not in variables:
        raise InvalidInput(f"`name` must be a variable of the kernel, got {name!r}", field="name")
    value = variables[name]
    if inspect.isfunction(value) and not call:
        raise InvalidInput(
            f"A function must be chosen in the list of models before it is called, got {name!r:.100}, which only the "
            "design names",
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
