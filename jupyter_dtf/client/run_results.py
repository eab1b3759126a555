"""The results of a run: the return values of its tasks, and the history of a training run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any


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
