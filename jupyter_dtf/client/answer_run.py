"""``AnswerRun``: a run of ``cluster.predict`` or ``cluster.evaluate``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .run import Run

if TYPE_CHECKING:
    from .answers import PreparedAnswer


class AnswerRun(Run):
    """A run whose ``result()`` returns the same value as ``model.predict`` or ``model.evaluate``."""

    def __init__(self, run_id: str, prepared: PreparedAnswer | None = None) -> None:
        super().__init__(run_id)
        self._prepared = prepared
        self._answer: list[Any] = []

    def result(self, timeout_s: float | None = None) -> Any:
        """Wait until the run has ended and return the predictions or the evaluation.

        Args:
            timeout_s: The longest time to wait, in seconds. None: no limit.

        Returns:
            The value that ``Cluster.predict`` or ``Cluster.evaluate`` returns.

        Raises:
            RunFailed: With the traceback of the task that failed first.
            RunStopped: If the run was stopped.
            ClusterLost: If the cluster was lost.
            TimeoutError: If the run has not ended after ``timeout_s`` seconds.
        """
        if not self._answer:
            from . import answers

            results = super().result(timeout_s)
            first = results[0]
            is_evaluation = self.info.kind == "evaluate"
            self._answer.append(answers.evaluation(first) if is_evaluation else answers.predictions(results))
            if self._prepared is not None:
                self._prepared.give_back(first.changed)
        return self._answer[0]
