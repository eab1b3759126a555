"""``AnswerRun``: a run of ``cluster.predict`` or ``cluster.evaluate``, whose result is the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .run import Run

if TYPE_CHECKING:
    from .answers import PreparedAnswer


class AnswerRun(Run):
    """A run that answers: ``result()`` is what ``model.predict`` or ``model.evaluate`` would return."""

    def __init__(self, run_id: str, prepared: PreparedAnswer | None = None) -> None:
        super().__init__(run_id)
        self._prepared = prepared
        self._answer: list[Any] = []

    def result(self, timeout_s: float | None = None) -> Any:
        """Wait, then the answer. Raises as ``Run.result``."""
        if not self._answer:
            from . import answers

            results = super().result(timeout_s)
            first = results[0]
            is_evaluation = self.info.kind == "evaluate"
            self._answer.append(answers.evaluation(first) if is_evaluation else answers.predictions(results))
            if self._prepared is not None:
                self._prepared.give_back(first.changed)
        return self._answer[0]
