"""Sends requests to all hosts of a gang: either all succeed, or an error names the tasks that are missing."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from typing import Any

from ...errors import GangIncomplete
from ...schema.launch import TaskSpec
from ..planning.launch_plan import HostSlot, PlannedTask
from .active_run import Run


async def ask_hosts(
    rpc: Callable[[str], Any],
    run_id: str,
    planned: Sequence[PlannedTask],
    op: str,
    message: Callable[[list[PlannedTask]], dict[str, Any]],
) -> dict[str, str]:
    """Send a request to every host of a gang.

    Args:
        rpc: ``rpc(address)`` connects to a host.
        run_id: The id of the run.
        planned: The tasks and their hosts.
        op: The operation.
        message: Returns the arguments for a host, given its tasks.

    Returns:
        The merged replies, keyed by task.

    Raises:
        GangIncomplete: If any host failed. The message names the tasks on the failed hosts.
    """
    by_host: dict[HostSlot, list[PlannedTask]] = {}
    for task in planned:
        by_host.setdefault(task.host, []).append(task)
    calls = [getattr(rpc(host.address), op)(run_id=run_id, **message(mine)) for host, mine in by_host.items()]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    merged: dict[str, str] = {}
    missing = []
    for (host, mine), answer in zip(by_host.items(), answers, strict=True):
        # A Dask worker that is closing no longer has our operations, and replies to unknown ones with None.
        if isinstance(answer, BaseException) or answer is None:
            names = ", ".join(task.task for task in mine)
            missing.append(f"{names} on host {host.name}: {'it is shutting down' if answer is None else answer}")
        else:
            merged.update(answer)
    if missing:
        raise GangIncomplete("A run starts only if all of its tasks do. Could not start " + "; ".join(missing))
    return merged


def places(tasks: Sequence[PlannedTask]) -> list[str]:
    """Return the names of the ports to reserve: for each task, one for its server and one for other tasks' links."""
    return [task.task for task in tasks] + [link_of(task) for task in tasks]


def link_of(task: PlannedTask) -> str:
    """Return the name of the port for connections from other tasks."""
    return f"link of {task.task}"


def task_specs(run: Run, cluster: str, endpoints: dict[str, str], *, joins: bool = False) -> dict[str, TaskSpec]:
    """Return the spec of each task.

    Args:
        run: The run.
        cluster: The name of the cluster.
        endpoints: The endpoint (``host:port``) of each reserved port, keyed by the port's name (see ``places``).
        joins: Whether tasks of the previous attempt join this one.
    """
    jobs = by_job(run.planned, endpoints)
    on_one_machine = len({task.host.machine for task in run.planned}) == 1
    # TensorFlow's collectives are used only for NCCL, which needs a separate GPU for each task.
    by_nccl = all(task.gpus.gpus and not task.gpus.memory_bytes for task in run.planned)
    between_machines = "ring" if by_nccl else "tcp"
    secret = secrets.token_hex(32)
    # TensorFlow's collectives must be set up before anything else is done with its runtime.
    may_start_early = on_one_machine or between_machines == "tcp"
    printed = run.log.lines_printed() if run.attempt else {}
    may_go_over = run.request.kind == "fit" and run.may_restart
    may_be_spare = run.request.may_be_spare and may_start_early and not run.request.environment
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
            gpu_growth=task.gpus.grows,
            gang=[each.task for each in run.gang],
            may_go_over=may_go_over,
            may_be_spare=may_be_spare,
            says_when_done=bool(run.request.places),
            trace_steps=run.request.trace_steps,
            attempt=run.attempt,
            joins=joins,
            lines=printed.get(task.task, {}),
            checkpoint=run.request.checkpoint,
            resume=run.request.resume,
            secret=secret,
            links=[endpoints[link_of(each)] for each in run.planned] if len(run.planned) > 1 else [],
            between_machines=between_machines,
        )
        for task in run.planned
    }


def by_job(planned: Sequence[PlannedTask], endpoints: dict[str, str]) -> dict[str, dict[int, str]]:
    """Return the tasks' endpoints as ``{job: {task index: endpoint}}``."""
    jobs: dict[str, dict[int, str]] = {}
    for task in planned:
        jobs.setdefault(task.job, {})[task.index] = endpoints[task.task]
    return jobs
