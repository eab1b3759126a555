"""``cluster.predict`` and ``cluster.evaluate``: inference and evaluation, divided among all tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..schema.restart import Restart
from ..schema.run_options import RunOptions
from ..schema.strategy import AllReduce
from . import held_resources
from .answer_run import AnswerRun
from .argument_errors import names_arguments
from .cluster_handle import ClusterHandle
from .submitting import request_of, submit, training_jobs
from .waiting import show_until_end, show_until_sent

if TYPE_CHECKING:
    from .answers import PreparedAnswer


class Answering(ClusterHandle):
    """The part of ``Cluster`` that predicts and evaluates."""

    @names_arguments
    def predict(  # noqa: PLR0917 - Keras's
        self,
        model: Any,
        x: Any,
        batch_size: int | None = None,
        verbose: Any = "auto",
        steps: int | None = None,
        callbacks: Any = None,
        *,
        name: str = "",
        jobs: Mapping[str, int] | None = None,
        threads_per_task: int = 0,
        gpus_per_task: int | None = None,
        gpu_memory: int | float | None = None,
        restart: Restart | bool | None = None,
        modules: Sequence[Any] = (),
        wait: bool = True,
    ) -> Any:
        """Compute a model's predictions on all tasks of the cluster, as ``model.predict`` does in one process.

        Each batch is computed by one task, exactly as a single process would compute it, so the model must fit into the
        memory of each task. A model that changes when it is called (stateful layers, random numbers) runs on the first
        task only.

        For a Dask collection, the result is a lazy Dask collection with the same partitions: an array for arrays, a bag
        for bags, and a dataframe with the same index for dataframes. Processes on the Dask workers that hold the
        partitions compute it. For a ``dtf.Feed``, the result contains the predictions for its ``x``, in the same order.
        The keyword-only arguments do not apply in these two cases.

        Args:
            model: A Keras model, compiled or not, or a function that returns one.
            x: Data in any form that ``fit`` accepts, of shape ``[examples, ...]``. Labels that it contains are ignored.
            batch_size: Examples per batch; each batch is computed by one task. Default: 32.
            verbose: Ignored; the run shows its own progress.
            steps: The number of batches to predict. By default one pass over the data.
            callbacks: Must be None.
            name: The name of the run.
            jobs: See ``run``.
            threads_per_task: See ``run``.
            gpus_per_task: See ``run``.
            gpu_memory: See ``run``.
            restart: What happens when a task dies. By default the run ends.
            modules: See ``run``.
            wait: Wait for the predictions. If False, return the run; its ``result()`` returns the predictions.

        Returns:
            The value that ``model.predict`` would return: NumPy arrays of shape ``[examples, ...]`` in the order of the
            examples, in the structure of the model's outputs.

        Raises:
            InvalidInput: If an argument is invalid. Raised before anything starts.
            RunFailed: With the traceback of the task that failed first.
            RunStopped: If the run was stopped.

        Example:
            >>> probabilities = cluster.predict(model, x_test, batch_size=256)
        """
        options = RunOptions.among(locals())
        from . import answers, dask_answers

        del verbose
        x = dask_answers.examples_of(x)
        if dask_answers.is_collection(x):
            answers.refuse_callbacks(callbacks)
            return dask_answers.predict(model, x, batch_size, steps)
        prepared = answers.prepare(model, x, evaluates=False, batch_size=batch_size, steps=steps, callbacks=callbacks)
        return self._answer(prepared, options, modules, wait)

    @names_arguments
    def evaluate(  # noqa: PLR0917 - Keras's
        self,
        model: Any,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: Any = "auto",
        sample_weight: Any = None,
        steps: int | None = None,
        callbacks: Any = None,
        return_dict: bool = False,
        *,
        name: str = "",
        jobs: Mapping[str, int] | None = None,
        threads_per_task: int = 0,
        gpus_per_task: int | None = None,
        gpu_memory: int | float | None = None,
        restart: Restart | bool | None = None,
        modules: Sequence[Any] = (),
        wait: bool = True,
    ) -> Any:
        """Compute a model's loss and metrics on all tasks of the cluster, as ``model.evaluate`` does in one process.

        The tasks share the batches, as in ``predict``, and add up the states of their metrics. If these states cannot
        be added (because a metric keeps a maximum, or a ``test_step`` returns its own values), only the first task
        evaluates the model, and a note about this is added to the run.

        Args:
            model: A compiled Keras model, or a function that returns one.
            x: Data in any form that ``fit`` accepts, of shape ``[examples, ...]``. Of Dask collections, each task reads
                its share of the partitions, as in training.
            y: The targets, of shape ``[examples, ...]``, if ``x`` does not contain them.
            batch_size: Examples per batch; each batch is computed by one task. Default: 32.
            verbose: Ignored; the run shows its own progress.
            sample_weight: A weight for each example, of shape ``[examples]``.
            steps: The number of batches to evaluate. By default one pass over the data.
            callbacks: Must be None.
            return_dict: Whether to return a dict of the loss and the metrics instead of a list.
            name: The name of the run.
            jobs: See ``run``.
            threads_per_task: See ``run``.
            gpus_per_task: See ``run``.
            gpu_memory: See ``run``.
            restart: What happens when a task dies. By default the run ends.
            modules: See ``run``.
            wait: Wait for the result. If False, return the run; its ``result()`` returns the evaluation.

        Returns:
            The value that ``model.evaluate`` would return: the loss, or a list of the loss and the metrics if there are
            metrics; with ``return_dict``, a dict keyed by name.

        Raises:
            InvalidInput: If an argument is invalid. Raised before anything starts.
            RunFailed: With the traceback of the task that failed first.
            RunStopped: If the run was stopped.

        Example:
            >>> cluster.evaluate(model, x_test, y_test, return_dict=True)
            {'accuracy': 0.97, 'loss': 0.11}
        """
        options = RunOptions.among(locals())
        from . import answers

        del verbose
        prepared = answers.prepare(
            model,
            x,
            y,
            evaluates=True,
            batch_size=batch_size,
            sample_weight=sample_weight,
            steps=steps,
            callbacks=callbacks,
            return_dict=return_dict,
        )
        return self._answer(prepared, options, modules, wait)

    def _answer(self, prepared: PreparedAnswer, options: RunOptions, modules: Sequence[Any], wait: bool) -> Any:
        options.name = options.name or self._run_name(prepared.name)
        options.jobs = training_jobs(AllReduce(), options.jobs or self.jobs)
        request = request_of(
            options, kind=prepared.kind, may_be_spare=prepared.may_be_spare, parameters=prepared.parameters
        )
        held = prepared.hold(lambda: self.client)
        program = self._with_modules(modules, prepared.program)
        run = submit(self._name, request, program, lambda run_id: AnswerRun(run_id, prepared))
        held_resources.keep(run, held)
        try:
            if not wait:
                show_until_sent(run)
                return run
            show_until_end(run)
            return run.result()
        finally:
            held_resources.let_go()
