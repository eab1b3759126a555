"""The client's part in a pipeline: the placement read and checked, before anything starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..backend.task.fit.pipeline import places
from ..errors import InvalidInput
from ..schema.design import Design
from ..schema.placement import Placement
from ..schema.strategy import Pipeline, Strategy


def with_placement(strategy: Strategy) -> Strategy:
    """A pipeline that names a design, with the design's placement. Raises NotFound, and InvalidInput for the design."""
    if isinstance(strategy, Pipeline) and isinstance(strategy.placement, str):
        return msgspec.structs.replace(strategy, placement=Design.open(strategy.placement).placement)
    return strategy


def refuse_scaling(strategy: Strategy, scale_lr: bool) -> None:
    """Raise InvalidInput for a learning rate that is to grow with the copies of a pipeline, of which there is one."""
    if isinstance(strategy, Pipeline) and scale_lr and strategy.replicas == 1:
        raise InvalidInput(
            "`scale_lr` multiplies the learning rate by the number of those that share a batch: the tasks of a "
            "pipeline share it only in copies, dtf.Pipeline(..., replicas=2), got scale_lr=True with replicas=1",
            field="scale_lr",
        )


def checked_layers(strategy: Strategy, model: Any) -> list[str]:
    """The ids of the layers of a Keras model that is to be pipelined; none of one that is not built yet.

    Raises InvalidInput unless the placement fits them.
    """
    if not isinstance(strategy, Pipeline) or not model.built:
        return []
    from ..backend.task.describe import layers_by_id

    layers = layers_by_id(model)
    places.check_layers(places.read(_placement(strategy)), layers)
    return list(layers)


def check_jobs(strategy: Strategy, jobs: Mapping[str, int]) -> None:
    """Raise InvalidInput unless the run's tasks are those that the placement and its copies need."""
    if isinstance(strategy, Pipeline):
        tasks = [f"{job}:{index}" for job in Pipeline.jobs for index in range(jobs.get(job, 0))]
        places.check_tasks(places.read(_placement(strategy)), tasks, strategy.replicas)


def _placement(strategy: Pipeline) -> Placement:
    assert isinstance(strategy.placement, Placement)
    return strategy.placement
