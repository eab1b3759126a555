"""References to a model's parts, which are valid in every process.

A reference denotes the same part in a model and in the model's copy in a task. Importing this module does not import
Keras.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

Reference = tuple[Any, ...]


def parts_of(model: Any) -> dict[Reference, Any]:
    """Return a model, its layers, variables, optimizers, metrics, losses and random generators, keyed by reference.

    For a model that is not built, these are the parts that exist so far.
    """
    found: dict[Reference, Any] = {}
    for reference, part in _parts(model):
        found.setdefault(reference, part)
    return found


def _parts(model: Any) -> Iterator[tuple[Reference, Any]]:
    import keras

    for path, layer in _layers(model, (), set()):
        yield ("layer", *path), layer
        for name, value in list(vars(layer).items()):
            yield from _of_attribute(("attribute", *path, name), value)
        for number, value in enumerate(getattr(layer, "_metrics", ())):
            yield from _of_metric(("metric", *path, number), value)
        for number, value in enumerate(getattr(layer, "_seed_generators", ())):
            yield ("seed", *path, number), value
            yield ("seed", *path, number, "state"), value.state
    given = getattr(model, "_compile_metrics", None)
    for name in ("_user_metrics", "_user_weighted_metrics"):
        for number, value in enumerate(keras.tree.flatten(getattr(given, name, None))):
            if isinstance(value, keras.metrics.Metric):
                yield from _of_metric(("compiled", name, number), value)
    for number, value in enumerate(keras.tree.flatten(getattr(model, "loss", None))):
        if isinstance(value, keras.losses.Loss):
            yield ("loss", number), value
    if model.built:
        for number, variable in enumerate(model.weights):
            yield ("weight", number), variable


def _layers(layer: Any, path: tuple[int, ...], seen: set[int]) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Yield a layer and the layers inside it, each with its path of indices. The paths stay valid when the model is
    built, because building only appends layers.
    """
    if id(layer) in seen:
        return
    seen.add(id(layer))
    yield path, layer
    for number, inner in enumerate(layer._layers):
        yield from _layers(inner, (*path, number), seen)


def _of_attribute(reference: Reference, value: Any) -> Iterator[tuple[Reference, Any]]:
    import keras

    variable: Any = getattr(sys.modules.get("tensorflow"), "Variable", keras.Variable)
    if isinstance(value, (keras.Variable, variable)):
        yield reference, value
    elif isinstance(value, keras.metrics.Metric):
        yield from _of_metric(reference, value)
    elif isinstance(value, keras.optimizers.Optimizer):
        yield from _of_optimizer(reference, value)


def _of_metric(reference: Reference, metric: Any) -> Iterator[tuple[Reference, Any]]:
    yield reference, metric
    for number, variable in enumerate(metric.variables):
        yield (*reference, number), variable


def _of_optimizer(reference: Reference, optimizer: Any) -> Iterator[tuple[Reference, Any]]:
    import keras

    yield reference, optimizer
    for name, value in list(vars(optimizer).items()):
        if isinstance(value, keras.optimizers.Optimizer):
            yield from _of_optimizer((*reference, name), value)
        elif isinstance(value, (keras.Variable, keras.optimizers.schedules.LearningRateSchedule)):
            yield (*reference, name), value
    if optimizer.built:
        for number, variable in enumerate(optimizer.variables):
            yield (*reference, number), variable
