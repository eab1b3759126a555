"""The positions at which asynchronous tasks start and resume, and their checkpoints, which only the chief writes.

A worker's process gets its starting position from the servers, which derive it from the message that the chief sends
when the group starts and from the last gradient that the first server has received from the worker. The procedure is
therefore the same for a new run, for a run that resumes from a checkpoint, and for a worker process that replaces a
lost one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import msgspec

from ...checkpoint import files
from ...collectives.primitive import Alone
from ..callbacks import Last
from ..checkpoint_state import Begin
from ..checkpoints import Saving, Training
from ..data import Skip, steps_of_epoch
from ..job import FitJob
from ..where_to_begin import skip_until, where_to_begin
from .messages import Place, Start, Started
from .server_client import Client


@dataclasses.dataclass
class Beginning:
    """This process's starting state. ``begin`` and ``stored`` are set on the chief if there is a checkpoint."""

    started: Started
    begin: Begin | None = None
    stored: files.Stored | None = None

    @property
    def place(self) -> Place:
        return self.started.place

    @property
    def goes_on(self) -> bool:
        """Whether this worker, or its run, has taken steps before."""
        return self.place.steps > 0 or self.started.version > 0

    def job(self, job: FitJob) -> FitJob:
        """Return a copy of ``job`` that begins at this process's starting position."""
        place, began = self.place.epoch, self.started.first_epoch
        return dataclasses.replace(job, seed=self.started.seed, initial_epoch=place, began=began)

    def skip(self, job: FitJob, steps_per_execution: int) -> Skip | None:
        """Return the part of the first epoch to skip, or None if there is none."""
        place, first = self.place, self.started.first_epoch
        if not place.within and (job.steps_per_epoch is None or place.epoch == first):
            return None
        return skip_until(place.epoch, place.within, first, job, steps_per_execution)

    def tell(self, ctx: Any) -> None:
        """Show a note if this worker was lost and has reconnected."""
        if self.started.is_back:
            where = f"epoch {self.place.epoch + 1}"
            if self.place.within:
                where += f", after {self.place.within} of its steps"
            ctx.note("info", f"{ctx.task} is back", f"It continues with {where}")


def beginning(job: FitJob, ctx: Any, client: Client, *, steps_per_execution: int, follows_the_run: bool) -> Beginning:
    """Return this process's starting state.

    The chief first sends all starting positions; each task then requests its own.

    ``follows_the_run``: whether this worker starts at the run's position, in whole epochs, rather than at its own
    position, in whole executions of the train function. Raises InvalidInput or NotFound, on the chief, if a required
    checkpoint is missing or invalid.
    """
    begin, stored = None, None
    if ctx.is_chief:
        begin, stored = where_to_begin(job, ctx, Alone())
        client.begin(_start(job, begin, ctx.size))
    started = client.started()
    if follows_the_run:
        place = _place_of_the_run(started, steps_of_epoch(job) or 0)
    else:
        more = started.place.within % steps_per_execution
        place = Place(started.place.epoch, started.place.within - more, started.place.steps - more)
    started = msgspec.structs.replace(started, place=place)
    return Beginning(started, begin, stored)


def _start(job: FitJob, begin: Begin | None, workers: int) -> Start:
    if begin is None:
        return Start(job.seed, job.initial_epoch, Place(job.initial_epoch))
    info, state = begin.info, begin.state
    chiefs = Place(info.epoch, info.step_in_epoch, info.step)
    others = tuple(Place(*place) for place in state.places[1:])
    is_alike = len(state.places) == workers
    return Start(state.seed, state.first_epoch, chiefs, (chiefs, *others) if is_alike else ())


def _place_of_the_run(started: Started, steps: int) -> Place:
    """Return the beginning of the run's current epoch. The epoch's finished steps are skipped later."""
    epochs = started.version // steps if steps else 0
    return Place(started.first_epoch + epochs, 0, epochs * steps)


class OwnSaving(Saving):
    """Saves checkpoints of the servers' state, on the chief, at the chief's own steps. ``end`` writes the last
    checkpoint.

    ``run_step``: with backup workers, a function that returns the run's step as of the last fetch; otherwise None.
    """

    def __init__(
        self, training: Training, begin: Begin | None, sync: Any, last: Last, run_step: Callable[[], int] | None
    ) -> None:
        super().__init__(training, begin, sync, last)
        self._run_step = run_step
        self._at_the_end: tuple[int, int, float | None] | None = None

    def _save(self, epoch: int, within: int, metric: float | None = None, is_last: bool = False) -> None:
        if self.model.stop_training or (not within and epoch >= self._job.epochs):
            self._is_due = False
            self._at_the_end = epoch, within, metric
        else:
            super()._save(epoch, within, metric, is_last)

    def _write(self, step: int, epoch: int, within: int, metric: float | None, is_last: bool) -> None:
        if self._run_step is not None and self._length:
            step = self._run_step()
            epochs, steps = divmod(step, self._length)
            if within and self._first_epoch + epochs > epoch:
                self._is_due = True  # the other tasks have ended the epoch: end it here too, before writing
                return
            epoch, within = self._first_epoch + epochs, steps
        super()._write(step, epoch, within, metric, is_last)

    def end(self) -> None:
        """Write the last checkpoint if it is due, after all workers have left and the chief has the servers' state."""
        if self._at_the_end is not None:
            epoch, within, metric = self._at_the_end
            if self._writer is not None:
                self._writer.wait()
            if (owners := self._writing_owners()) is not None:
                owners.take(final=True)
            self._write(self._last.step, epoch, within, metric, is_last=True)
