"""The runs of a cluster: all active ones, and the most recent ones that have ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import NotFound
from ...schema.run import RunDescriptor, RunRequest, RunState, TaskState
from .active_run import Run
from .kept_results import PART_BYTES, KeptResults
from .viewer_streams import Viewers

KEPT_RUNS = 50
"""How many ended runs to keep; older ones are in the store. Results are kept independently of this number."""


class Runs:
    """The runs of ``cluster``, keyed by id. Their events are sent to ``viewers``.

    ``on_step()`` is called when a run is added or its state changes. ``kept`` receives the results of runs that have
    ended.
    """

    def __init__(self, cluster: str, viewers: Viewers, on_step: Callable[[], None], kept: KeptResults) -> None:
        self.by_id: dict[str, Run] = {}
        self._cluster = cluster
        self._viewers = viewers
        self._on_step = on_step
        self._kept = kept

    def add(self, descriptor: RunDescriptor, request: RunRequest) -> Run:
        """Add a new run and send it to viewers."""
        run = self.by_id[descriptor.id] = Run(
            descriptor,
            request,
            publish=lambda run, seq, data: self._viewers.tell_run(run),
            on_step=self._stepped,
        )
        self._viewers.tell_run(run)
        self._on_step()
        return run

    def _stepped(self, run: Run) -> None:
        if not run.is_active:
            self._kept.put(run.id, run.results)
            run.results.clear()
            run.ended_before.clear()
        self._on_step()

    def find(self, run_id: str) -> Run:
        """Return a run. Raises NotFound."""
        if run_id not in self.by_id:
            raise NotFound(f"The cluster {self._cluster} has no run with the id {run_id!r}")
        return self.by_id[run_id]

    def find_active(self, run_id: str) -> Run | None:
        """Return a run if it exists and has not ended, else None."""
        run = self.by_id.get(run_id)
        return run if run is not None and run.is_active else None

    @property
    def active(self) -> list[Run]:
        """The runs that have not ended."""
        return [run for run in self.by_id.values() if run.is_active]

    @property
    def working(self) -> list[Run]:
        """The active runs that have tasks or wait for hosts: all but the paused ones."""
        return [run for run in self.active if run.info.state is not RunState.PAUSED]

    @property
    def are_busy(self) -> bool:
        """Whether any active run has work of its own, rather than only servers that wait for clients."""
        return any(not run.only_serves for run in self.active)

    async def result(self, run_id: str, task: str) -> bytes:
        """Return the pickled return value of a task that has succeeded. Raises NotFound, with the reason."""
        return (await self._read(run_id, task, 0, None))[0]

    async def result_part(self, run_id: str, task: str, at: int) -> dict[str, Any]:
        """Return up to ``PART_BYTES`` of a task's pickled result from offset ``at``, and the size of the whole result.

        Raises NotFound.
        """
        data, size = await self._read(run_id, task, at, PART_BYTES)
        return {"data": data, "size": size}

    async def _read(self, run_id: str, task: str, at: int, count: int | None) -> tuple[bytes, int]:
        run = self.by_id.get(run_id)
        if run is None or self._kept.has(run_id):
            return await self._kept.read(run_id, task, at, count)
        if task in run.results:
            data = run.results[task]
            return data[at : len(data) if count is None else at + count], len(data)
        if any(info.task == task and info.state is TaskState.SUCCEEDED for info in run.info.tasks):
            raise self._kept.not_kept(run_id)
        raise NotFound(f"{task} of {run_id} has no result, because it has not succeeded")

    def forget_old(self) -> None:
        """Drop all but the newest ``KEPT_RUNS`` runs that have ended."""
        finished = [run_id for run_id, run in self.by_id.items() if not run.is_active]
        for run_id in finished[:-KEPT_RUNS]:
            del self.by_id[run_id]
            self._viewers.forget(run_id)
