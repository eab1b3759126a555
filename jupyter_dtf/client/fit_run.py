"""``FitRun``: a run of ``cluster.fit``, which ends by giving the trained weights back."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable
from concurrent.futures import wait as wait_for
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ClusterLost, Conflict, InvalidInput, ModelDiffers, NotFound, RunFailed, RunStopped
from ..schema.run import RunInfo, RunState
from .answer_run import AnswerRun
from .run import History, Run
from .session import Session
from .submitting import begun
from .waiting import show_until_end, show_until_sent

if TYPE_CHECKING:
    from .fit import PreparedFit


class FitRun(Run):
    """A training run. ``model`` holds the trained weights once the run has ended.

    In the process that started it, that is the model that was passed; in another one it is made anew.
    """

    def __init__(
        self,
        run_id: str,
        job: PreparedFit | None = None,
        again: Callable[[PreparedFit, Run, Any, bool], FitRun] | None = None,
        *,
        submitted_with: RunInfo | None = None,
        in_session: Session | None = None,
    ) -> None:
        """``again(job, run, cluster, wait)`` starts another one that goes on with ``run``, with the options of this.

        Without both, they are those that the run was submitted with, or the run ``submitted_with``.
        """
        super().__init__(run_id, in_session=in_session)
        self._own_job = job
        self._again = again
        self._submitted_with = submitted_with
        self._finished = False
        self._has_result = False

    @property
    def _job(self) -> PreparedFit:
        if self._own_job is None:
            from .found_fit import job_of

            self._own_job = job_of(self._submitted_with or self.info)
        return self._own_job

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
                self._has_result = True
                try:
                    self._job.finish(result)
                except ModelDiffers:
                    self._finished = True  # the model holds what there is
                    raise
            self._finished = True
        return self

    def raise_for_state(self) -> None:
        """As ``Run.raise_for_state``; what an iterator of the caller's has raised here is the cause."""
        try:
            super().raise_for_state()
        except RunFailed as error:
            raised = [feed.failure for feed in self._own_job.feeds if feed.failure] if self._own_job else []
            raise error from (raised[0] if raised else None)

    def give_back(self) -> None:
        """``finish`` for a model that somebody here has passed; one that nobody has is made when it is asked for."""
        if self._own_job is not None:
            self.finish()
        else:
            self.wait()
            with contextlib.suppress(RunStopped):
                self.raise_for_state()

    def result(self, timeout_s: float | None = None) -> History:
        """Wait, then the history. Raises as ``Run.result``."""
        self.wait(timeout_s)
        self.raise_for_state()
        self.give_back()
        return self.history

    def resume(self, step: int | None = None, *, cluster: Any = None, wait: bool = True) -> FitRun:
        """As ``Run.resume``. In the process that started the run, the model that it was given gets the weights."""
        if self._again is not None and self._own_job is not None:
            from .checkpoints import path_of

            return self._again(self._own_job.from_checkpoint(path_of(self, step)), self, cluster, wait)
        name, was = "" if cluster is None else name_of(cluster), self.info

        def make(run_id: str) -> FitRun:
            return FitRun(run_id, submitted_with=was)

        run = begun(lambda fleet, opened: fleet.resume_run(self.id, name, step, opened), make)
        return seen_through(run, wait)

    def export(self, path: str | os.PathLike[str], step: int | None = None) -> Path:
        """Save the model of the newest checkpoint, or that of ``step``; the run may go on. Returns where.

        ``path`` ends in ``.keras`` or ``.h5`` for a file of Keras's, which has the optimizer too; without a suffix it
        becomes the directory of a SavedModel for inference. Raises NotFound, Conflict where the model is not kept,
        InvalidInput, and what Keras raises.
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
        """The trained Keras model; waits for the end of the run.

        Of a run whose result is not to be had any more, as that of a cluster that is gone, it is the model of its
        newest checkpoint; a warning says so where the run had come further. Raises NotFound or Conflict where there is
        none, or the model is not kept; as ``result`` for a run of this process that has failed.
        """
        is_found = self._again is None
        if is_found and not self.info.goes_on:
            raise Conflict(
                "The model of a run that another process has started is made of what it was submitted with, which is "
                f"kept of trainings that write checkpoints. Received: {self.id}, with checkpoint=False"
            )
        try:
            self.finish()
        except (ClusterLost, RunFailed) as error:
            if isinstance(error, RunFailed) and not is_found:
                raise
            return self._of_checkpoint(error)
        if self._has_result or not self.info.tasks:
            return self._job.model
        try:
            return self._of_checkpoint(None)
        except NotFound:
            if is_found or self.info.state is not RunState.STOPPED:
                raise
            return self._job.model  # which has learnt nothing

    def _of_checkpoint(self, cause: Exception | None) -> Any:
        """The model of the newest checkpoint. Raises ``cause``, or NotFound, where there is none."""
        from .checkpoints import newest_of

        try:
            path = newest_of(self)
        except NotFound:
            if cause is not None:
                raise cause from None
            raise NotFound(
                f"The model of a run is its result, which its cluster keeps, or its newest checkpoint. Received: "
                f"{self.id}, whose cluster is gone and which has no checkpoint"
            ) from None
        model, step = self._job.restored_from(path)
        done = self.info.progress.done if self.info.progress.unit == "step" else 0
        if step < done or cause is not None:
            warnings.warn(
                f"The model of the run {self.id} is that of its newest checkpoint, after step {step} of {done}",
                stacklevel=3,
            )
        return model

    def _trained_model(self) -> Any:
        return self.model


def name_of(cluster: Any) -> str:
    """The name of a cluster that is given by it, or held. Raises InvalidInput."""
    name = getattr(cluster, "name", cluster)
    if not isinstance(name, str):
        raise InvalidInput(f"cluster is a cluster or its name. Received: {cluster!r:.200}", field="cluster")
    return name


def held(info: RunInfo) -> Run:
    """A run as a person holds it who has not started it: a training by what is its own."""
    if info.kind in ("predict", "evaluate"):
        return AnswerRun(info.id)
    return FitRun(info.id) if info.kind == "fit" else Run(info.id)


def seen_through(run: FitRun, wait: bool) -> FitRun:
    """Show a run until its end, if it is waited for, and finish it; else until its arrays are the caller's again."""
    if wait:
        try:
            show_until_end(run)
        except KeyboardInterrupt:
            if run.info.state.is_final:  # stopped, not left: the model keeps what it has learnt
                run.give_back()
            raise
        run.give_back()
    else:
        show_until_sent(run)
    if run.kept is not None:
        wait_for([run.kept])
    return run
