"""Distributed TensorFlow and Keras from JupyterLab: clusters, training across processes, live plots.

Public names are loaded on first use, so importing this package imports neither TensorFlow nor Dask. If this package is
imported before TensorFlow, it hides the messages that TensorFlow prints at startup, except errors
(``tensorflow_chatter``), and makes TensorFlow allocate GPU memory only as needed, so that the tasks of a cluster can
use the rest (``gpu_growth``).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import gpu_growth, tensorflow_chatter
from ._version import __version__
from .client import display_hooks

tensorflow_chatter.hush()
gpu_growth.let_grow()


def _surroundings() -> display_hooks.Surroundings:
    from .notebook.shown_here import here

    return here()


display_hooks.find = _surroundings

if TYPE_CHECKING:
    from .backend.task.collectives.ops import (
        ProcessSet,
        allgather,
        allgather_object,
        allreduce,
        alltoall,
        barrier,
        broadcast_object,
        grouped_allgather,
        grouped_allreduce,
        grouped_reducescatter,
        reducescatter,
    )
    from .backend.task.ensemble import Ensemble, ensemble
    from .client.cluster import Cluster
    from .client.feed import Feed
    from .client.forecasting import plan
    from .client.in_task import (
        broadcast,
        feed,
        is_chief,
        rank,
        report,
        report_histogram,
        report_image,
        report_table,
        report_text,
        size,
        traced,
    )
    from .client.launch import launch
    from .client.lookup import clusters, connect, run, runs
    from .client.model_placement import calibrate, describe, place, predict
    from .client.run import Run
    from .client.search.population import PopulationBased
    from .client.search.search import Search
    from .client.tensorboard_import import import_tensorboard
    from .compat.horovod.optimizer import DistributedOptimizer
    from .compat.horovod.tape import DistributedGradientTape
    from .errors import (
        ClusterLost,
        Conflict,
        DtfError,
        InvalidInput,
        ModelDiffers,
        NotFound,
        RunFailed,
        RunStopped,
        Unavailable,
    )
    from .notebook.cluster_widget import ClusterWidget
    from .notebook.run_widget import RunWidget
    from .notebook.this_notebook import cluster
    from .schema.checkpoint import Checkpoint
    from .schema.cluster import ClusterSpec
    from .schema.context import Context
    from .schema.design import Design
    from .schema.notify import Notify
    from .schema.placement import Placement
    from .schema.restart import Restart
    from .schema.strategy import AllReduce, InGraph, ParameterServer, Pipeline

_HOMES = {
    "ProcessSet": "backend.task.collectives.ops",
    "allgather": "backend.task.collectives.ops",
    "allgather_object": "backend.task.collectives.ops",
    "allreduce": "backend.task.collectives.ops",
    "alltoall": "backend.task.collectives.ops",
    "barrier": "backend.task.collectives.ops",
    "broadcast_object": "backend.task.collectives.ops",
    "grouped_allgather": "backend.task.collectives.ops",
    "grouped_allreduce": "backend.task.collectives.ops",
    "grouped_reducescatter": "backend.task.collectives.ops",
    "reducescatter": "backend.task.collectives.ops",
    "Ensemble": "backend.task.ensemble",
    "ensemble": "backend.task.ensemble",
    "DistributedGradientTape": "compat.horovod.tape",
    "DistributedOptimizer": "compat.horovod.optimizer",
    "Cluster": "client.cluster",
    "cluster": "notebook.this_notebook",
    "ClusterWidget": "notebook.cluster_widget",
    "clusters": "client.lookup",
    "connect": "client.lookup",
    "Feed": "client.feed",
    "import_tensorboard": "client.tensorboard_import",
    "run": "client.lookup",
    "runs": "client.lookup",
    "Run": "client.run",
    "RunWidget": "notebook.run_widget",
    "PopulationBased": "client.search.population",
    "Search": "client.search.search",
    "launch": "client.launch",
    "broadcast": "client.in_task",
    "feed": "client.in_task",
    "is_chief": "client.in_task",
    "rank": "client.in_task",
    "report": "client.in_task",
    "report_histogram": "client.in_task",
    "report_image": "client.in_task",
    "report_table": "client.in_task",
    "report_text": "client.in_task",
    "size": "client.in_task",
    "traced": "client.in_task",
    "Checkpoint": "schema.checkpoint",
    "ClusterSpec": "schema.cluster",
    "Context": "schema.context",
    "AllReduce": "schema.strategy",
    "Design": "schema.design",
    "calibrate": "client.model_placement",
    "describe": "client.model_placement",
    "place": "client.model_placement",
    "plan": "client.forecasting",
    "predict": "client.model_placement",
    "InGraph": "schema.strategy",
    "ParameterServer": "schema.strategy",
    "Pipeline": "schema.strategy",
    "Notify": "schema.notify",
    "Placement": "schema.placement",
    "Restart": "schema.restart",
    "ClusterLost": "errors",
    "Conflict": "errors",
    "DtfError": "errors",
    "InvalidInput": "errors",
    "ModelDiffers": "errors",
    "NotFound": "errors",
    "RunFailed": "errors",
    "RunStopped": "errors",
    "Unavailable": "errors",
}

__all__ = [
    "AllReduce",
    "Checkpoint",
    "Cluster",
    "ClusterLost",
    "ClusterSpec",
    "ClusterWidget",
    "Conflict",
    "Context",
    "Design",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "DtfError",
    "Ensemble",
    "Feed",
    "InGraph",
    "InvalidInput",
    "ModelDiffers",
    "NotFound",
    "Notify",
    "ParameterServer",
    "Pipeline",
    "Placement",
    "PopulationBased",
    "ProcessSet",
    "Restart",
    "Run",
    "RunFailed",
    "RunStopped",
    "RunWidget",
    "Search",
    "Unavailable",
    "__version__",
    "allgather",
    "allgather_object",
    "allreduce",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_object",
    "calibrate",
    "cluster",
    "clusters",
    "connect",
    "describe",
    "ensemble",
    "feed",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_reducescatter",
    "import_tensorboard",
    "is_chief",
    "launch",
    "place",
    "plan",
    "predict",
    "rank",
    "reducescatter",
    "report",
    "report_histogram",
    "report_image",
    "report_table",
    "report_text",
    "run",
    "runs",
    "size",
    "traced",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    return [{"src": "labextension", "dest": "jupyter_dtf"}]


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    from .handlers.app import JupyterDTF

    return [{"module": "jupyter_dtf", "app": JupyterDTF}]


def load_ipython_extension(shell: Any) -> None:
    """Register the ``%dtf`` and ``%%dtf`` magics. Called by ``%load_ext jupyter_dtf``."""
    from .notebook.magics import register

    register(shell)
