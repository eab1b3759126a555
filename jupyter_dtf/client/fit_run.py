"""``FitRun``: a run of ``cluster.fit``, which ends by giving the trained weights back."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput, ModelDiffers, NotFound, RunStopped
from .run import History, Run

if TYPE_CHECKING:
    from .fit import PreparedFit


class FitRun(Run):
    """A training run. ``model`` holds the trained weights once the run has ended."""

    def __init__(self, run_id: str, job: PreparedFit, again: Callable[[PreparedFit, str, bool], FitRun]) -> None:
        """``again(job, name, wait)`` starts another one, with the options of this."""
        super().__init__(run_id)
        self._job = job
        self._again = again
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

    def resume(self, step: int | None = None, *, wait: bool = True) -> FitRun:
        """Go on from the newest checkpoint, or that of ``step``, as a new run on the same cluster. The model, the data
        and the options are those of this one; ``wait`` as in ``cluster.fit``.

        Raises NotFound where there is no such checkpoint, and as ``cluster.fit``.
        """
        from .checkpoints import path_of

        return self._again(self._job.from_checkpoint(path_of(self, step)), self.info.name, wait)

    def export(self, path: str | os.PathLike[str], step: int | None = None) -> Path:
        """Save the model of the newest checkpoint, or that of ``step``; the run may go on. Returns where.

        ``path`` ends in ``.keras`` or ``.h5`` for a file of Keras's, which has the optimizer too; without a suffix it
        becomes the directory of a SavedModel for inference. Raises NotFound, InvalidInput, and what Keras raises.
        """
        from .checkpoints import path_of

        where = Path(path).expanduser()
        if where.suffix not in ("", ".keras", ".h5"):
            raise InvalidInput(
                f"path ends in .keras, .h5, or nothing for the directory of a SavedModel. Received: {where}",
                field="path",
            )
        model = self._job.model_at(path_of(self, step))
        if where.suffix:
            model.save(where)
        else:
            model.export(where, verbose=False)
        return where

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
