"""The checks of a pipeline, for jobs with a placement, and for the designer before a placement exists."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from .....errors import InvalidInput
from .....schema.graph import Refusal
from .....schema.placement import Placement
from .....schema.strategy import Pipeline
from .. import limits
from ..checks import Asked, Check, Checks
from ..job import FitJob
from . import layer_devices


class PipelineChecks(Checks):
    """The checks for training by one client, with layers on devices, possibly in several copies."""

    def is_exact(self, job: FitJob) -> bool:
        assert isinstance(job.strategy, Pipeline)
        return job.strategy.replicas == 1

    def of_tasks(self, asked: Asked) -> Iterator[Check]:
        if asked.jobs is not None:
            yield partial(_check_tasks, _strategy(asked), asked.jobs)
        yield partial(limits.refuse_fewer_stages, _strategy(asked), asked.min_workers)
        yield partial(limits.refuse_scaling, _strategy(asked), asked.scale_lr)

    def of_model(self, asked: Asked, model: Any) -> Iterator[Check]:
        from .limits import refuse_own_step, refuse_unsupported

        strategy = _strategy(asked)
        is_split = isinstance(strategy.placement, Placement) and bool(strategy.placement.splits)
        yield partial(limits.refuse_built_for_others, strategy.name, model)
        yield partial(limits.refuse_tables, model)
        yield partial(refuse_unsupported, model)
        yield partial(refuse_own_step, model, strategy.replicas, is_split)

    def of_built(self, asked: Asked, model: Any) -> Iterator[Check]:
        yield from ()


def _strategy(asked: Asked) -> Pipeline:
    assert isinstance(asked.strategy, Pipeline)
    return asked.strategy


def _check_tasks(strategy: Pipeline, jobs: Any) -> None:
    tasks = [f"{job}:{index}" for job in Pipeline.jobs for index in range(jobs.get(job, 0))]
    assert isinstance(strategy.placement, Placement)
    layer_devices.check_tasks(layer_devices.read(strategy.placement), tasks, strategy.replicas)


def checked_layers(placement: Placement, model: Any) -> list[str]:
    """Return the ids of a built model's layers.

    Raises InvalidInput unless every layer with weights has a place, and the layers to be split can be split. The client
    calls this function, because the layers may have other names in a task.
    """
    from ...describe.layer_graph import layers_by_id
    from .limits import refuse_splits

    layers, there = layers_by_id(model), layer_devices.read(placement)
    layer_devices.check_layers(there, layers)
    refuse_splits(model, layers, there)
    return list(layers)


# -- before there is a placement ---------------------------------------------------------------------------------------


def refused_as_drawn(model: Any) -> list[Refusal]:
    """Return the reasons why a pipeline cannot train a Keras model at all, in several copies, or with split layers."""
    if not getattr(model, "compiled", False):
        message = f"A model must be compiled before it is trained, but {model.name!r} is not: call model.compile(...)"
        return [Refusal(field="model", message=message)]
    checks = PipelineChecks()
    anywhere = Asked(Pipeline(placement=Placement()))
    always = [str(error) for error in checks.refusals(anywhere, model)]
    copies = replace(anywhere, strategy=Pipeline(placement=Placement(), replicas=2))
    found = [Refusal(field="model", message=message) for message in always]
    found += [
        Refusal(field="run.replicas", message=str(error))
        for error in checks.refusals(copies, model)
        if str(error) not in always
    ]
    if model.built and not always:
        found += [Refusal(field=error.field, message=str(error)) for error in _split_refusals(model)]
    return found


def _split_refusals(model: Any) -> Iterator[InvalidInput]:
    """Yield the reasons why some or all layers cannot be split over two devices."""
    from ...describe.layer_graph import layers_by_id
    from .limits import refuse_own_step, refuse_split, refuse_split_model

    try:
        refuse_split_model(model)
        refuse_own_step(model, replicas=1, is_split=True)
    except InvalidInput as error:
        yield error
        return

    def why(path: str, layer: Any) -> InvalidInput | None:
        try:
            refuse_split(path, layer, parts=2)
        except InvalidInput as error:
            return error
        return None

    splittable = {id(layer) for layer in model._flatten_layers() if layer_devices.can_be_split(layer) and layer.built}
    if not any(why("", layer) for layer in model._flatten_layers() if id(layer) in splittable):
        return  # before computing the layers' ids, which requires calling the model
    for path, layer in layers_by_id(model).items():
        if id(layer) in splittable and (refusal := why(path, layer)) is not None:
            yield refusal
