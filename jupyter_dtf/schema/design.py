"""A design: a cluster, a model, where its layers run, and how it is to be trained. The content of a ``.dtf`` file."""

from __future__ import annotations

from typing import Any

import msgspec

from .api import Problem
from .base import Struct
from .graph import LayerGraph
from .hosts import HostDesign, TaskPlace
from .placement import Calibration, Placement, Prediction, Slot

VERSION = 1
"""Of the format that is written."""


class ClusterDesign(Struct):
    """The cluster that is wanted."""

    name: str = ""
    """Empty: a free name is chosen."""
    kind: str = "local"
    jobs: dict[str, int] = msgspec.field(default_factory=lambda: {"worker": 2})
    options: dict[str, Any] = {}
    """Those of its kind."""
    hosts: list[HostDesign] = []
    """Empty: those that the kind makes by itself."""
    tasks: list[TaskPlace] = []


class ModelSource(Struct):
    """Where the model came from, so that it can be read again."""

    kind: str = "none"  # kernel, file, none
    path: str = ""
    """Of the file, or of the notebook whose kernel has the variable; relative to the server's folder."""
    variable: str = ""


class ModelDesign(Struct):
    """A model as its layers."""

    graph: LayerGraph
    source: ModelSource = msgspec.field(default_factory=ModelSource)


class RunSettings(Struct):
    """How the model is to be trained."""

    batch_size: int = 64
    """Of a step, over all microbatches and replicas."""
    microbatches: int = 8
    replicas: int = 1
    epochs: int = 1


class Design(Struct):
    """A ``.dtf`` document."""

    version: int = VERSION
    cluster: ClusterDesign = msgspec.field(default_factory=ClusterDesign)
    model: ModelDesign | None = None
    placement: Placement = msgspec.field(default_factory=Placement)
    run: RunSettings = msgspec.field(default_factory=RunSettings)
    calibration: Calibration | None = None
    drawing: dict[str, Any] = {}
    """What the designer keeps of the picture itself: folded blocks, positions."""


class DesignProblem(Problem):
    """What is wrong with a design: with a field of it, or with the text, which then could not be read."""

    line: int = 0
    """From 1, as ``column``; 0 where it is a field that is meant."""
    column: int = 0


class DesignReport(Struct):
    """What a design would make, and what is wrong with it. Ports are 0: each run chooses its own."""

    cluster_spec: dict[str, list[str]] = {}
    tf_config: dict[str, str] = {}
    """TF_CONFIG as JSON text for each task, ``worker:0`` first."""
    devices: dict[str, str] = {}
    """The device that each task computes on, ``/job:worker/task:1/device:GPU:0``."""
    problems: list[DesignProblem] = []
    prediction: Prediction | None = None


class LayerPlace(Struct):
    """A layer of a run: where it was to be, and where its operations ran."""

    layer: str
    planned: list[str]
    actual: list[str]


class RunPlacement(Struct):
    """Where a run's layers were to be and where they were, and which device was busy when in the last step traced."""

    layers: list[LayerPlace] = []
    timeline: list[Slot] = []
    step_seconds: float = 0.0
