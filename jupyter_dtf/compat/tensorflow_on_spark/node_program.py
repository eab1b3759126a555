"""Runs a node's program in a task of the run, with the context and the inlet that the program needs."""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...backend.task.feed.inlet import Inlet, inlet_of
from . import feed_words as words
from .install import install_as_tensorflowonspark
from .node_context import TFNodeContext
from .tf_manager import TFManager

SERVING = ("ps", "evaluator")
"""The jobs of nodes that run until they are requested to end."""
MASTERS = ("chief", "master")


@dataclass(frozen=True)
class NodePlan:
    """The settings of all nodes of a cluster. ``executors`` has the nodes' ids, keyed by TensorFlowOnSpark's jobs."""

    executors: dict[str, list[int]]
    master_node: str = ""
    default_fs: str = "file://"
    working_dir: str = "."
    queues: Sequence[str] = field(default=words.QUEUES)
    is_alone: bool = False
    """Whether each node is its own cluster (``TFParallel``)."""
    num_workers: int = 0
    """The number of instances, if each node is its own cluster."""
    first: int = 0
    """The number of this run's first instance."""


def run(map_fun: Callable[[Any, TFNodeContext], Any], given: tuple[Any, NodePlan], dtf: Any) -> Any:
    """Run the program of a task, ``map_fun(tf_args, ctx)``, with a context as in TensorFlowOnSpark. Return its result.

    ``given`` consists of ``tf_args`` and the plan.
    """
    tf_args, plan = given
    install_as_tensorflowonspark()
    if isinstance(tf_args, list):
        sys.argv = list(tf_args)
    if plan.is_alone:
        return map_fun(tf_args, _instance(plan, dtf))
    job = _as_called(dtf.job_name, plan)
    spec = {_as_called(name, plan): list(tasks.values()) for name, tasks in dtf.cluster_spec.jobs.items()}
    _set_tf_config(job, dtf.task_index, spec)
    with Inlet(inlet_of(dtf)) as inlet:
        manager = TFManager([*plan.queues, words.CONTROL], inlet, dtf.stop_requested)
        number = plan.executors[job][dtf.task_index]
        ctx = TFNodeContext(number, job, dtf.task_index, spec, plan.default_fs, plan.working_dir, mgr=manager, dtf=dtf)
        try:
            result = _serve(map_fun, tf_args, ctx, manager) if job in SERVING else map_fun(tf_args, ctx)
        except BaseException as error:
            trace = error.__traceback__
            lines = traceback.format_exception(type(error), error, trace.tb_next if trace is not None else None)
            manager.refuse_all(words.Standing("failed", "".join(lines)))
            raise
        manager.refuse_all(words.Standing("ended"))
        return result


def _serve(map_fun: Callable[..., Any], tf_args: Any, ctx: TFNodeContext, manager: TFManager) -> Any:
    """Run the program of a node that may never end on its own, until it ends or its cluster is shut down."""
    outcome: list[Any] = []
    failure: list[BaseException] = []
    over = threading.Event()

    def program() -> None:
        try:
            outcome.append(map_fun(tf_args, ctx))
        except BaseException as error:
            failure.append(error)
        over.set()

    def control() -> None:
        manager.get_queue(words.CONTROL).get()  # returns None when the queue ends
        over.set()

    for target in (program, control):
        threading.Thread(target=target, name=f"dtf-node-{target.__name__}", daemon=True).start()
    over.wait()
    if failure:
        raise failure[0]
    return outcome[0] if outcome else None


def _instance(plan: NodePlan, dtf: Any) -> TFNodeContext:
    os.environ.pop("TF_CONFIG", None)
    number = plan.first + dtf.task_index
    ctx = TFNodeContext(number, defaultFS=plan.default_fs, working_dir=plan.working_dir, dtf=dtf)
    ctx.num_workers = plan.num_workers
    return ctx


def _as_called(job: str, plan: NodePlan) -> str:
    return plan.master_node if job == "chief" else job


def _set_tf_config(job: str, index: int, spec: dict[str, list[str]]) -> None:
    """Set TF_CONFIG if there is a master, as TensorFlowOnSpark does.

    Without a master, TF_CONFIG is removed, and TensorFlow treats each node as the only process.
    """
    if not any(master in spec for master in MASTERS):
        os.environ.pop("TF_CONFIG", None)
        return
    task = {"type": job, "index": index}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": spec, "task": task, "environment": "cloud"})
