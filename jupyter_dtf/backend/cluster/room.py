"""Runs that ask for places of their own wait here for them, first come, first served."""

from __future__ import annotations

from ...errors import DtfError, Unavailable
from ..planning.launch_plan import PlannedTask, ordered_tasks
from ..planning.take_places import Free, take
from .active_run import Run
from .seating import Seating


class Room:
    """Who has which of the cluster's places (``RunRequest.places``), and who waits for some.

    Nobody passes the first of those who wait, so one that needs many is not starved by those that need few.
    """

    def __init__(self, seating: Seating) -> None:
        self._seating = seating
        self._taken: dict[str, list[PlannedTask]] = {}
        self._places: list[PlannedTask] = []
        self._free = Free((), ())
        self._waiting: list[str] = []
        self._returning: set[str] = set()
        """Runs that begin again and wait for places, before all who have had none."""
        self._seats: dict[str, list[PlannedTask]] = {}

    async def seats(self, run: Run) -> list[PlannedTask]:
        """Wait for places for a run, and take them; none if the run ends meanwhile.

        Raises Unavailable for one that has none when all hosts are there and nobody else has a place.
        """
        self._waiting.append(run.id)
        try:
            await self._seating.until(lambda: not run.is_active or self._seat(run) or self._is_alone(run))
            if run.is_active and run.id not in self._seats:
                check_fits(self._seating, run.info.jobs, run.request.places, run.request.place_shares)
                raise Unavailable("No places of the cluster are free for it, though nobody else has one")
        finally:
            self._waiting.remove(run.id)
            await self._seating.wake()  # there may be room for the next as well
        return self._seats.pop(run.id, [])

    def again(self, run: Run) -> bool:
        """Whether there are places for a run that begins again, which are its own then. It waits behind nobody."""
        self._give_back(run)
        found = self._find(run)
        (self._returning.discard if found else self._returning.add)(run.id)
        return found

    def seats_again(self, run: Run) -> list[PlannedTask]:
        """The places that ``again`` has found."""
        return self._seats.pop(run.id)

    async def leave(self, run: Run) -> None:
        """A run has ended: its places are free."""
        self._seats.pop(run.id, None)
        was_returning = run.id in self._returning
        self._returning.discard(run.id)
        if self._give_back(run) or was_returning:
            await self._seating.wake()

    def _give_back(self, run: Run) -> bool:
        """Whether it had places."""
        taken = self._taken.pop(run.id, None)
        if taken is not None:
            self._free.give_back(taken)
        return taken is not None

    def _seat(self, run: Run) -> bool:
        return self._is_next(run) and self._find(run)

    def _is_next(self, run: Run) -> bool:
        return self._seating.has_all_hosts and self._waiting[0] == run.id and not self._returning

    def _is_alone(self, run: Run) -> bool:
        """Whether it is its turn, and nobody has a place that could become free."""
        return self._is_next(run) and not self._taken

    def _find(self, run: Run) -> bool:
        try:
            places = self._seating.places()
        except DtfError:  # a device that was drawn has gone
            return False
        if places is not self._places:  # hosts have come or gone
            others = [place for taken in self._taken.values() for place in taken]
            self._places, self._free = places, Free(places, others)
        request = run.request
        tasks, threads = ordered_tasks(run.info.jobs), request.threads_per_task
        try:
            found = self._free.take(tasks, request.places, threads_per_task=threads, shares=request.place_shares)
        except DtfError:  # the size of a GPU is not known any more
            self._places = []
            return False
        if found is not None:
            self._seats[run.id], self._taken[run.id] = found
        return found is not None


def check_fits(seating: Seating, jobs: dict[str, int], each: int, shares: int) -> None:
    """Raise Unavailable for a run that has no room on the cluster, however empty it is."""
    places = seating.places()
    tasks = ordered_tasks(jobs)
    if take(places, (), tasks, each, shares=shares) is None:
        hosts = len({place.host.address for place in places})
        wanted = f"{each} place{'s' * (each != 1)}" if shares == 1 else f"1/{shares} of a place"
        raise Unavailable(
            f"A trial needs {wanted} on one host for each of its {len(tasks)} "
            f"task{'s' * (len(tasks) != 1)}. The cluster has {len(places)} on {hosts} host{'s' * (hosts != 1)}"
        )
