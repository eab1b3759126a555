"""``FitRun``: a run of ``cluster.fit``, which ends by giving the trained weights back."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from ..errors import ModelDiffers, NotFound, RunStopped
from .run import History, Run

if TYPE_CHECKING:
    from .fit import PreparedFit


class FitRun(Run):
    """A training run. ``model`` holds the trained weights once the run has ended."""

    def __init__(self, run_id: str, job: PreparedFit) -> None:
        super().__init__(run_id)
        self._job = job
        self._finished = False

    def finish(self) -> FitRun:
        """Wait, then put the trained weights into the model. A stopped run gives what it has learnt so far.

        Raises as ``result``, and ModelDiffers once, with the trained weights in the model all the same.
        """
        self.wait()
        if not self._finished:
            with contextlib.suppress(RunStopped):
                self.raise_for_state()
            tasks = self.info.tasks  # none of a run that was stopped before it was launched
            with contextlib.suppress(NotFound):  # stopped before there was anything to give back
                if not tasks:
                    raise NotFound(f"The run {self.id} had not been launched")
                result = self._result_of(tasks[0].task)
                try:
                    self._job.finish(result)
                except ModelDiffers:
                    self._finished = True  # the model holds what there is
                    raise
            self._finished = True
        return self

    def result(self, timeout_s: float | None = None) -> History:
        """Wait, then the history. Raises as ``Run.result``."""
        self.wait(timeout_s)
        self.raise_for_state()
        self.finish()
        return self.history

    @property
    def updates(self) -> dict[str, dict[str, int]]:
        """With parameter servers, what became of each worker's gradients; waits for the end of the run.

        By task (``worker:1``), how many were ``scheduled`` by the worker's own count, ``applied``, ``dropped`` as too
        late, and ``repeated``: received twice and applied once. Empty under any other strategy.
        """
        self.finish()
        return self._job.updates

    @property
    def model(self) -> Any:
        """The trained Keras model; waits for the end of the run."""
        self.finish()
        return self._job.model

    def _trained_model(self) -> Any:
        return self.model
