"""``FitRun``: a run of ``cluster.fit``, which puts the trained weights into the caller's model when it ends."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable
from concurrent.futures import wait as wait_for
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ClusterLost, Conflict, DtfError, InvalidInput, ModelDiffers, NotFound, RunFailed, RunStopped
from ..schema.arguments import check_path
from ..schema.run import RunInfo, RunState, TaskInfo, TaskState
from .answer_run import AnswerRun
from .run import Run
from .run_results import History
from .session import Session
from .submitting import begun
from .waiting import show_until_end, show_until_sent

if TYPE_CHECKING:
    from ..backend.task.fit.job import FitResult
    from .fit import PreparedFit


class FitRun(Run):
    """A training run.

    In the process that started it, the model that was passed gets the trained weights. In any other process,
    ``model`` is a new model.
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
        """``again(job, run, cluster, wait)`` starts a run that continues ``run`` with the options of this one.

        Without ``job`` and ``again``, the training is recreated from the files that were saved when this run, or the
        run ``submitted_with``, was submitted.
        """
        super().__init__(run_id, in_session=in_session)
        self._own_job = job
        self._again = again
        self._submitted_with = submitted_with
        self._finished = False
        self._has_model = False
        self._gone = ""
        """The reason why there is no result, if the model comes from a checkpoint instead."""

    @property
    def _job(self) -> PreparedFit:
        if self._own_job is None:
            from .found_fit import job_of

            self._own_job = job_of(self._submitted_with or self.info)
        return self._own_job

    def finish(self) -> FitRun:
        """Wait until the run has ended, then put the trained weights into the model.

        If the run was stopped, the model keeps what it has learned so far.

        Returns:
            This run.

        Raises:
            RunFailed: With the traceback of the task that failed first.
            ClusterLost: If the cluster was lost.
            NotFound: If the result is no longer kept, for example because the cluster was closed, and no checkpoint
                from the end of training can replace it.
            ModelDiffers: If the trained model's outputs in this process differ from those in the task that trained it.
                The model still holds the trained weights, and the error is raised only once.
        """
        self.wait()
        if not self._finished:
            with contextlib.suppress(RunStopped):
                self.raise_for_state()
            try:
                result = self._chiefs_result()
            except NotFound as error:
                self._finish_at_checkpoint(error)
            else:
                self._has_model = result is not None
                try:
                    if result is not None:
                        self._job.finish(result)
                except ModelDiffers:
                    self._finished = True  # the model holds the trained weights
                    raise
            self._finished = True
        return self

    def _chiefs_result(self) -> FitResult | None:
        """Return the chief's result; None if the run was stopped before there was one.

        Raises NotFound if the result is no longer kept, or if no task has returned one.
        """
        info = self.info
        result = None if (chief := _chief_of(info.tasks)) is None else self._result_of(chief)
        if result is None and info.state is not RunState.STOPPED:
            raise NotFound(f"No task of the run {self.id} has returned the trained model")
        return result

    def _finish_at_checkpoint(self, why: NotFound) -> None:
        """Finish with the newest checkpoint if it was written at the end of training. Otherwise, raise NotFound."""
        from .checkpoints import newest_of

        done, history = self._steps_done, self.history
        try:
            found = self._job.model_at(newest_of(self))
        except (DtfError, OSError) as error:
            there = str(error)
        else:
            if 0 < done <= found.step and found.epoch > max(history.epoch, default=-1):
                self._job.finish_at(found, history.history, history.epoch)
                self._has_model, self._gone = True, str(why)
                return
            there = f"the run's newest checkpoint was written after step {found.step} of {done or 'an unknown number'}"
            there += ", and `run.model` returns the model of that checkpoint"
        raise NotFound(f"{why}. The model does not have the trained weights: {there}") from None

    @property
    def _steps_done(self) -> int:
        progress = self.info.progress
        return progress.done if progress.unit == "step" else 0

    def raise_for_state(self) -> None:
        """Raise an error if the run has ended without success.

        If it failed because the caller's data iterator raised an error in this process, that error is the cause.

        Raises:
            RunFailed: With the traceback of the task that failed first.
            RunStopped: If the run was stopped.
            ClusterLost: If the cluster was lost.
        """
        try:
            super().raise_for_state()
        except RunFailed as error:
            raised = [feed.failure for feed in self._own_job.feeds if feed.failure] if self._own_job else []
            raise error from (raised[0] if raised else None)

    def give_back(self) -> None:
        """Call ``finish`` if this process passed the model; otherwise, only wait. Raises an error if the run failed."""
        if self._own_job is not None:
            self.finish()
        else:
            self.wait()
            with contextlib.suppress(RunStopped):
                self.raise_for_state()

    def result(self, timeout_s: float | None = None) -> History:
        """Wait until the run has ended and return its history.

        Args:
            timeout_s: The longest time to wait, in seconds. None: no limit.

        Returns:
            The equivalent of Keras's ``History``.

        Raises:
            RunFailed: With the traceback of the task that failed first.
            RunStopped: If the run was stopped.
            ClusterLost: If the cluster was lost.
            NotFound: If the trained weights are no longer available for the model that was passed, as in ``finish``.
            TimeoutError: If the run has not ended after ``timeout_s`` seconds.
        """
        self.wait(timeout_s)
        self.raise_for_state()
        self.give_back()
        return self.history

    def resume(self, step: int | None = None, *, cluster: Any = None, wait: bool = True) -> FitRun:
        """Continue training from one of the run's checkpoints, as a new run with the same model, data and options.

        Any process can do so, because the run's program and up to 256 MiB of its data were saved when it was submitted.
        In the process that started the run, the model that was passed gets the new weights.

        Args:
            step: The step of the checkpoint. None: the newest checkpoint.
            cluster: The cluster, or its name, to continue on. None: the run's own cluster.
            wait: See ``Cluster.fit``.

        Returns:
            The new run.

        Raises:
            NotFound: If there is no such checkpoint.
            Conflict: If the run cannot be continued from here.
            RunFailed: With the traceback of the task that failed first.

        Example:
            >>> dtf.run("3f2a9c").resume(step=1000)
        """
        if self._again is not None and self._own_job is not None:
            from .checkpoints import path_of

            return self._again(self._own_job.from_checkpoint(path_of(self, step)), self, cluster, wait)
        name, was = "" if cluster is None else name_of(cluster), self.info

        def make(run_id: str) -> FitRun:
            return FitRun(run_id, submitted_with=was)

        run = begun(lambda fleet, opened: fleet.resume_run(self.id, name, step, opened), make)
        return seen_through(run, wait)

    def export(self, path: str | os.PathLike[str], step: int | None = None) -> Path:
        """Save the model of one of the run's checkpoints, even while the run continues.

        Args:
            path: A file ending in ``.keras`` or ``.h5``, which includes the optimizer state; or, without a suffix, the
                directory of a SavedModel for inference.
            step: The step of the checkpoint. None: the newest checkpoint.

        Returns:
            The path.

        Raises:
            NotFound: If there is no such checkpoint.
            Conflict: If the model was not saved with the run.
            InvalidInput: If ``path`` has another suffix.

        Example:
            >>> run.export("digits.keras")
        """
        from .checkpoints import path_of

        where = check_path(path, "path").expanduser()
        if where.suffix not in ("", ".keras", ".h5"):
            raise InvalidInput(
                f"`path` must end in .keras or .h5, or have no suffix for a SavedModel directory, got {where}",
                field="path",
            )
        model = self._job.model_at(path_of(self, step)).model
        if where.suffix:
            model.save(where)
        else:
            model.export(where, verbose=False)
        return where

    @property
    def updates(self) -> dict[str, dict[str, int]]:
        """With parameter servers, the numbers of gradient updates of each worker. Waits until the run has ended.

        For each task (``worker:1``), a dict with the number of updates that the worker ``scheduled``, and of those that
        were ``applied``, ``dropped`` because they were too late, and ``repeated`` (received twice, applied once). Empty
        with any other strategy.

        Raises:
            NotFound: If the result is no longer kept.
        """
        self.finish()
        if self._gone:
            raise NotFound(self._gone)
        return self._job.updates

    @property
    def model(self) -> Any:
        """The trained Keras model. Waits until the run has ended.

        If the run was stopped before it had a result, or the result is no longer available, for example because the
        cluster is gone, this is the model of the newest checkpoint. A warning names the step of the checkpoint, unless
        the run was stopped at that step.

        Raises:
            NotFound: If there is neither a result nor a checkpoint.
            Conflict: If the run was started by another process without checkpoints.
            RunFailed: If the run failed and was started by this process.
        """
        is_found = self._again is None
        if is_found and not self.info.goes_on:
            raise Conflict(
                "The model of a run that another process started is available only if the run writes checkpoints, but "
                f"{self.id} was started with checkpoint=False"
            )
        try:
            self.finish()
        except (ClusterLost, NotFound, RunFailed) as error:
            if isinstance(error, RunFailed) and not is_found:
                raise
            return self._of_checkpoint(error)
        if self._has_model or not self.info.tasks:
            return self._job.model
        try:  # the run was stopped before it had a result
            return self._of_checkpoint(None)
        except NotFound:
            if is_found:
                raise
            return self._job.model  # untrained

    def _of_checkpoint(self, cause: Exception | None) -> Any:
        """Return the model of the newest checkpoint. If there is none, raise ``cause`` or NotFound."""
        from .checkpoints import newest_of

        try:
            path = newest_of(self)
        except NotFound:
            if cause is not None:
                raise cause from None
            raise NotFound(
                f"The run {self.id} has no model: it was stopped before it had a result, and it has no checkpoint"
            ) from None
        found, done = self._job.model_at(path), self._steps_done
        if found.step < done or cause is not None:
            warnings.warn(
                f"The model of the run {self.id} is from its newest checkpoint, after step {found.step} of {done}",
                stacklevel=3,
            )
        return self._job.take(found)

    def _trained_model(self) -> Any:
        return self.model


def _chief_of(tasks: list[TaskInfo]) -> str | None:
    """Return the task with the result: the first one, in rank order, that has succeeded. None if there is none."""
    return next((task.task for task in tasks if task.state is TaskState.SUCCEEDED), None)


def name_of(cluster: Any) -> str:
    """Return the name of a cluster that is given as a ``Cluster`` or by name. Raises InvalidInput."""
    name = getattr(cluster, "name", cluster)
    if not isinstance(name, str):
        raise InvalidInput(f"`cluster` must be a cluster or its name, got {cluster!r:.200}", field="cluster")
    return name


def held(info: RunInfo) -> Run:
    """Return the handle of a run that this process did not start, as an instance of the class for its kind."""
    if info.kind in ("predict", "evaluate"):
        return AnswerRun(info.id)
    return FitRun(info.id) if info.kind == "fit" else Run(info.id)


def seen_through(run: FitRun, wait: bool) -> FitRun:
    """Wait until the run has ended and call ``give_back`` (``wait``), or until its data has been sent. Return the run.

    If other processes can resume the run, also wait until its program and data have been saved for them.
    """
    if wait:
        try:
            show_until_end(run)
        except KeyboardInterrupt:
            if run.info.state.is_final:  # stopped, not detached: the model keeps what it has learned
                run.give_back()
            raise
        run.give_back()
    else:
        show_until_sent(run)
    if run.kept is not None:
        wait_for([run.kept])
    return run
