"""The state of a run's profile: which tasks are still tracing steps, and which have written their traces. No I/O."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from ...schema.events import Profiled, TracedSteps
from ...schema.run import TaskInfo, TaskState


class Profile:
    """One profile of a run.

    ``tasks`` maps each task that was asked to trace steps to its attempt. ``all_of_them``: whether all of these tasks
    are known to execute steps, even before they have reported any.
    """

    def __init__(self, number: int, steps: int, tasks: Mapping[str, int], *, all_of_them: bool = False) -> None:
        self.number = number
        self.steps = steps
        self.asked_s = time.monotonic()
        self.is_over = False
        self._tasks = dict(tasks)
        self._answered: set[str] = set()
        self._expected: set[str] = set(tasks) if all_of_them else set()
        self._begun: set[str] = set()
        self._left: dict[str, tuple[int, int]] = {}
        self._failed: dict[str, str] = {}

    @property
    def has_begun(self) -> bool:
        """Whether any task is recording, or is waiting for the first step to record."""
        return bool(self._begun)

    def hear(self, event: TracedSteps) -> None:
        """Process a task's report on its trace."""
        task = event.task
        if event.profile != self.number or self._tasks.get(task) != event.attempt:
            return
        self._answered.add(task)
        if event.has_steps:
            self._expected.add(task)
        if event.stage == "begun":
            self._begun.add(task)
            self._expected.add(task)
        elif event.stage == "left":
            self._left[task] = (event.first, event.last)
        elif event.stage == "failed":
            self._failed[task] = event.message

    def verdict(self, tasks: Sequence[TaskInfo], over: str = "") -> Profiled | None:
        """Return the event that ends the profile, once all tasks have written their traces; otherwise None.

        ``tasks`` are the current tasks of the run. ``over``, if not empty, says why no more traces will follow; the
        profile then ends in any case. The event is returned only once.
        """
        if self.is_over or not (over or self._is_complete(tasks)):
            return None
        self.is_over = True
        said = Profiled(time=time.time(), number=self.number, steps=self.steps, done=True)
        if not self._left:
            said.message = "; ".join(f"{task}: {why}" for task, why in self._failed.items()) or over
        return said

    def _is_complete(self, tasks: Sequence[TaskInfo]) -> bool:
        if not self._left and not self._failed:
            return False
        alive = {
            task.task
            for task in tasks
            if not task.state.is_final
            and task.state is not TaskState.FINISHED
            and self._tasks.get(task.task) == task.attempt
        }
        awaited = (alive - self._answered) | (alive & self._expected)
        return not awaited - self._left.keys() - self._failed.keys()

    def whom(self) -> str:
        """Return a clause that says which tasks are still tracing, for a message that the profile is in progress."""
        waits = sorted(self._expected - self._left.keys() - self._failed.keys())
        return (
            f"{', '.join(waits[:5])} trace{'s' * (len(waits) == 1)} {self.steps} steps" if waits else "it was requested"
        )

    def words(self) -> tuple[str, str]:
        """Return the title and the text of the note that says that the profile is complete."""
        first, last = self._left[min(self._left, key=list(self._tasks).index)]
        title = f"Step {first} was traced" if first == last else f"Steps {first} to {last} were traced"
        text = "The timeline, run.timeline() and run.placement() show what ran where"
        failed = "".join(f". {task} has written no trace: {why}" for task, why in self._failed.items())
        return title, text + failed
