"""The queue of runs that request slots for themselves alone: first come, first served."""

from __future__ import annotations

from ...errors import DtfError, Unavailable
from ...schema.run import RunState
from ..planning.launch_plan import PlannedTask, ordered_tasks
from ..planning.trial_places import Free, take
from .active_run import Run
from .task_assignment import TaskAssignment


class RunQueue:
    """Tracks which runs hold which of the cluster's slots (``RunRequest.places``), and which runs are waiting.

    No run overtakes the first run in the queue, so a run that needs many slots is not starved by runs that need few.
    """

    def __init__(self, assignment: TaskAssignment) -> None:
        self._assignment = assignment
        self._taken: dict[str, list[PlannedTask]] = {}
        self._places: list[PlannedTask] = []
        self._free = Free((), ())
        self._waiting: list[str] = []
        self._returning: set[str] = set()
        """Restarting runs that wait for slots; they take precedence over all new runs."""
        self._acquired: dict[str, list[PlannedTask]] = {}
        self._programs_ended: dict[str, dict[str, int]] = {}
        """For runs that have slots: the tasks whose programs have succeeded, and in which attempts."""

    async def acquire(self, run: Run) -> list[PlannedTask]:
        """Wait for free slots for a run and reserve them. Returns an empty list if the run ends first.

        Raises:
            Unavailable: If there are too few slots although all hosts are present and no other run has a slot.
        """
        self._waiting.append(run.id)
        try:
            await self._assignment.until(lambda: not run.is_active or self._acquire(run) or self._is_alone(run))
            if run.is_active and run.id not in self._acquired:
                check_fits(self._assignment, run.info.jobs, run.request.places, run.request.place_shares)
                raise Unavailable("The cluster has no free slots for the run, although no other run has any")
        finally:
            self._waiting.remove(run.id)
            await self._assignment.wake()  # there may be enough free slots for the next run as well
        return self._acquired.pop(run.id, [])

    def program_ended(self, run: Run, task: str, attempt: int) -> bool:
        """Note that the program of a run's task has succeeded in ``attempt``. Returns whether this has freed slots.

        The run's slots become free when this applies to all of its tasks, although their processes have not ended
        yet: the kernel takes 10 to 20 ms to unmap TensorFlow's memory. GPUs are free only after that.
        """
        taken = self._taken.get(run.id)
        if not taken or run.info.state is not RunState.RUNNING:
            return False  # a run that is being paused keeps its slots
        ended = self._programs_ended.setdefault(run.id, {})
        ended[task] = attempt
        if any(place.gpus.gpus for place in taken):
            return False
        if any(ended.get(place.task) != run.task_info(place.task).attempt for place in run.planned):
            return False  # a task that was lost at its end is started again
        return self._give_back(run)

    def again(self, run: Run) -> bool:
        """Reserve slots for a restarting run, ahead of the queue. Returns whether there are enough free slots."""
        self._give_back(run)
        found = self._find(run)
        (self._returning.discard if found else self._returning.add)(run.id)
        return found

    def acquired_again(self, run: Run) -> list[PlannedTask]:
        """Return the slots that ``again`` has reserved."""
        return self._acquired.pop(run.id)

    async def leave(self, run: Run) -> None:
        """Release the slots of a run that has ended."""
        self._acquired.pop(run.id, None)
        was_returning = run.id in self._returning
        self._returning.discard(run.id)
        if self._give_back(run) or was_returning:
            await self._assignment.wake()

    def _give_back(self, run: Run) -> bool:
        """Release a run's slots. Returns whether it had any."""
        self._programs_ended.pop(run.id, None)
        taken = self._taken.pop(run.id, None)
        if taken is not None:
            self._free.give_back(taken)
        return taken is not None

    def _acquire(self, run: Run) -> bool:
        return self._is_next(run) and self._find(run)

    def _is_next(self, run: Run) -> bool:
        return self._assignment.has_all_hosts and self._waiting[0] == run.id and not self._returning

    def _is_alone(self, run: Run) -> bool:
        """Return whether it is this run's turn and no other run has a slot that could become free."""
        return self._is_next(run) and not self._taken

    def _find(self, run: Run) -> bool:
        try:
            places = self._assignment.places()
        except DtfError:  # a device of the design is gone
            return False
        if places is not self._places:  # hosts have joined or left
            others = [place for taken in self._taken.values() for place in taken]
            self._places, self._free = places, Free(places, others)
        request = run.request
        tasks, threads = ordered_tasks(run.info.jobs), request.threads_per_task
        try:
            found = self._free.take(tasks, request.places, threads_per_task=threads, shares=request.place_shares)
        except DtfError:  # the memory size of a GPU is no longer known
            self._places = []
            return False
        if found is not None:
            self._acquired[run.id], self._taken[run.id] = found
        return found is not None


def check_fits(assignment: TaskAssignment, jobs: dict[str, int], each: int, shares: int) -> None:
    """Raise Unavailable if a run would not fit even on an empty cluster."""
    places = assignment.places()
    tasks = ordered_tasks(jobs)
    if take(places, (), tasks, each, shares=shares) is None:
        hosts = len({place.host.address for place in places})
        wanted = f"{each} slot{'s' * (each != 1)}" if shares == 1 else f"1/{shares} of a slot"
        raise Unavailable(
            f"A trial needs {wanted} on one host for each task, and it has {len(tasks)} "
            f"task{'s' * (len(tasks) != 1)}. The cluster has {len(places)} slot{'s' * (len(places) != 1)} on {hosts} "
            f"host{'s' * (hosts != 1)}"
        )
