"""What a run's tasks returned, or why they did not; the history of a training run."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..errors import ClusterLost, RunFailed, RunStopped, Unavailable
from ..schema.run import RunState, TaskState
from .named_run import NamedRun


class Results(list[Any]):
    """The return values of a run's tasks: a list in rank order, also indexed by name: ``results["worker:1"]``."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__(values.values())
        self._names = list(values)

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(self._names.index(key) if isinstance(key, str) else key)

    def items(self) -> list[tuple[str, Any]]:
        """Return the results as ``(task, value)`` pairs, in rank order."""
        return list(zip(self._names, self, strict=True))


class History(Mapping[str, list[float]]):
    """The equivalent of Keras's ``History``: a mapping from each metric to its values, one for each epoch.

    Attributes:
        history: The mapping as a dict.
        epoch: The numbers of the epochs, counted from 0.
        params: The settings of the run.
    """

    def __init__(
        self,
        history: dict[str, list[float]],
        epoch: list[int],
        params: dict[str, Any] | None = None,
        model: Callable[[], Any] | None = None,
    ) -> None:
        self.history = history
        self.epoch = epoch
        self.params = params or {}
        self._model = model

    @property
    def model(self) -> Any:
        """The trained model; waits until the run has ended. None if the run is not a training run."""
        return self._model() if self._model else None

    def __getitem__(self, metric: str) -> list[float]:
        return self.history[metric]

    def __iter__(self) -> Iterator[str]:
        return iter(self.history)

    def __len__(self) -> int:
        return len(self.history)

    def __repr__(self) -> str:
        last = ", ".join(f"{name} {values[-1]:.4g}" for name, values in self.history.items() if values)
        return f"<History of {len(self.epoch)} epoch{'s' * (len(self.epoch) != 1)}{': ' * bool(last)}{last}>"

    def __bool__(self) -> bool:
        return True  # like Keras's, even before the first epoch has ended


class EndedRun(NamedRun):
    """The part of ``Run`` that concerns what its tasks returned, or why they did not."""

    def raise_for_state(self) -> None:
        """Raise an error if the run has ended without success.

        Raises:
            RunFailed: With the traceback of the task that failed first.
            RunStopped: If the run was stopped.
            ClusterLost: If the cluster was lost.
        """
        info = self.info
        if info.state is RunState.FAILED:
            failed = [task for task in info.tasks if task.state is TaskState.FAILED]
            first = next((task for task in failed if info.message.startswith(task.task)), failed[0] if failed else None)
            raise RunFailed(
                f"The run {info.name} ({info.id}) failed: {info.message}",
                run_id=info.id,
                task=first.task if first else "",
                traceback=first.traceback if first else "",
            )
        if info.state is RunState.STOPPED:
            raise RunStopped(f"The run {info.name} ({info.id}) was stopped", run_id=info.id)
        if info.state is RunState.LOST:
            raise ClusterLost(f"The run {info.name} ({info.id}) is lost: {info.message}")

    def _results(self) -> Results:
        info = self.info
        done = [task.task for task in info.tasks if task.state is TaskState.SUCCEEDED]
        return Results({task: self._result_of(task) for task in done})

    def _result_of(self, task: str) -> Any:
        data = self._session.call(lambda fleet: fleet.result(self.id, task))
        try:
            return pickle.loads(data)
        except MemoryError:
            raise
        except Exception as error:
            raise Unavailable(
                f"The result of {task} of the run {self.id} cannot be unpickled in this process: "
                f"{type(error).__name__}: {error}"
            ) from error
