"""Asking all hosts of a run's tasks for one thing: all of them can do it, or what is missing is named."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import GangIncomplete
from ..schema.launch import TaskSpec
from .plan import HostSlot, PlannedTask
from .runs import Run


async def ask_hosts(
    rpc: Callable[[str], Any],
    run_id: str,
    planned: Sequence[PlannedTask],
    op: str,
    message: Callable[[list[PlannedTask]], dict[str, Any]],
) -> dict[str, str]:
    """Ask every host of a gang for ``op``, with ``message(its tasks)``; ``rpc(address)`` reaches a host.

    Returns the answers merged, by task. Raises GangIncomplete naming the tasks of every host that failed.
    """
    by_host: dict[HostSlot, list[PlannedTask]] = {}
    for task in planned:
        by_host.setdefault(task.host, []).append(task)
    calls = [getattr(rpc(host.address), op)(run_id=run_id, **message(mine)) for host, mine in by_host.items()]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    merged: dict[str, str] = {}
    missing = []
    for (host, mine), answer in zip(by_host.items(), answers, strict=True):
        if isinstance(answer, BaseException):
            names = ", ".join(task.task for task in mine)
            missing.append(f"{names} on host {host.name}: {answer}")
        else:
            merged.update(answer)
    if missing:
        raise GangIncomplete("All tasks of a run start or none does. Could not start " + "; ".join(missing))
    return merged


def task_specs(run: Run, cluster: str, endpoints: dict[str, str]) -> dict[str, TaskSpec]:
    """What each task of the run is told; ``endpoints`` maps tasks to ``host:port``."""
    jobs = by_job(run.planned, endpoints)
    # Between machines the first thing that is done with TensorFlow's runtime has to be to set up its collectives.
    on_one_machine = len({task.host.machine for task in run.planned}) == 1
    secret = secrets.token_hex(32)
    may_be_spare = run.request.may_be_spare and on_one_machine and not run.request.environment
    return {
        task.task: TaskSpec(
            run_id=run.id,
            cluster=cluster,
            job_name=task.job,
            task_index=task.index,
            cluster_spec=jobs,
            rank=task.rank,
            size=len(run.planned),
            local_rank=task.local_rank,
            local_size=task.local_size,
            machines=[each.host.machine for each in run.planned],
            threads=task.threads,
            run_dir=run.info.run_dir,
            stop_grace_s=run.request.stop_grace_s,
            sys_path=run.request.sys_path,
            cwd=run.request.cwd,
            environment=run.request.environment,
            visible_gpus=list(task.gpus.gpus),
            gpu_memory_bytes=task.gpus.memory_bytes,
            may_be_spare=may_be_spare,
            trace_steps=run.request.trace_steps,
            secret=secret,
        )
        for task in run.planned
    }


def by_job(planned: Sequence[PlannedTask], endpoints: dict[str, str]) -> dict[str, dict[int, str]]:
    """``{job: {task index: endpoint}}``."""
    jobs: dict[str, dict[int, str]] = {}
    for task in planned:
        jobs.setdefault(task.job, {})[task.index] = endpoints[task.task]
    return jobs
