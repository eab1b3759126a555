"""TensorFlowOnSpark's ``TFParallel``: runs many independent instances of one program."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from ...errors import InvalidInput, Unavailable
from ...schema.arguments import check_integer
from . import nodes
from .node_program import NodePlan
from .node_program import run as node_program


def run(sc: Any, map_fn: Callable[[Any, Any], Any], tf_args: Any, num_executors: int, use_barrier: bool = True) -> None:
    """Run several instances of ``map_fn(tf_args, ctx)`` in independent processes, and wait until all have ended.

    Args:
        sc: A ``dtf.Cluster``, a Dask client of one, or a ``SparkContext``.
        map_fn: The program. ``ctx.worker_num`` is the number of the instance, out of ``ctx.num_workers`` instances.
        tf_args: The program's first argument.
        num_executors: The number of instances.
        use_barrier: Whether all instances run at the same time, which requires as many tasks in the cluster. Otherwise,
            as many instances run at a time as the cluster has tasks.

    Raises:
        RunFailed: With the traceback of the instance that failed first.
        Unavailable: If there are too few tasks.
        InvalidInput: For invalid arguments.
    """
    num_executors = check_integer(num_executors, "num_executors", 1)
    if not callable(map_fn):
        raise InvalidInput(f"`map_fn` must be a function map_fn(args, ctx), got {map_fn!r:.200}", field="map_fn")
    cluster = nodes.cluster_of(sc)
    slots = sum(cluster.wait_ready().jobs.values())
    if use_barrier and num_executors > slots:
        raise Unavailable(
            "`num_executors` must be at most the number of tasks with use_barrier, because all instances run at the "
            f"same time, got {num_executors}, but the cluster {cluster.name} has {slots} tasks. With "
            "use_barrier=False, only that many run at a time; cluster.scale adds tasks"
        )
    for first in range(0, num_executors, slots):
        plan = NodePlan(
            executors={},
            default_fs=getattr(sc, "defaultFS", "file://"),
            working_dir=os.getcwd(),
            is_alone=True,
            num_workers=num_executors,
            first=first,
        )
        cluster.run(
            functools.partial(node_program, map_fn),
            (tf_args, plan),
            name=getattr(map_fn, "__name__", "program").strip("_") or "program",
            jobs={"worker": min(slots, num_executors - first)},
        )
