"""``cluster.predict`` and ``cluster.evaluate``: what a model says to data, asked on all tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..schema.restart import Restart
from ..schema.run_options import RunOptions
from ..schema.strategy import AllReduce
from . import holding
from .answer_run import AnswerRun
from .cluster_handle import ClusterHandle
from .named import names_arguments
from .submitting import request_of, submit, training_jobs
from .waiting import show_until_end, show_until_sent

if TYPE_CHECKING:
    from .answers import PreparedAnswer


class Answering(ClusterHandle):
    """What asks a model on all tasks of a cluster."""

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
        """What ``model.predict`` returns, computed on every task: NumPy arrays, in the order of the examples.

        ``model`` is a Keras model, compiled or not, or a function that returns one. ``x`` is what ``fit`` takes; of
        data that has labels, only the examples matter. ``batch_size`` (32) is that of one task's step: each batch is
        answered by one task, as one process would answer it, and the tasks share the batches. A model that changes
        itself when it answers (a stateful layer, random numbers) answers on the first task alone. A model must fit into
        each task. ``verbose`` is ignored, ``callbacks`` must be None.

        Of a Dask collection the answers are one too, lazy, with the same partitions, computed where it is computed:
        each partition by a process of its Dask worker, which loads the model once. Of arrays and bags it is an array or
        a bag, of dataframes a dataframe with the same index. Of a ``dtf.Feed`` its ``x`` is answered, in order.
        The arguments after ``callbacks`` are for runs alone.

        Waits until the end unless ``wait=False``, which returns the run, whose ``result()`` is the answer. ``restart``:
        what is done when a task dies; by default the run ends. ``gpus_per_task``, ``gpu_memory`` and ``modules`` as in
        ``run``.

        Raises InvalidInput before anything starts, and RunFailed with the failing task's traceback.
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
        """What ``model.evaluate`` returns, computed on every task: the loss and the metrics of all examples together.

        A number, or a list in the order of the metrics; with ``return_dict=True`` a dict by their names. ``model`` is
        compiled, or a function that returns a compiled one. The tasks share the batches, as in ``predict``, and add the
        states of their metrics up. Where these do not add up (a metric that keeps a maximum, a ``test_step`` that
        returns values of its own), the first task evaluates alone, and the run says so. Of Dask collections, and of a
        ``dtf.Feed`` of them, each task reads the partitions as in a training and takes every so many-th batch. All else
        is as in ``predict``.
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
        holding.keep(run, held)
        try:
            if not wait:
                show_until_sent(run)
                return run
            show_until_end(run)
            return run.result()
        finally:
            holding.let_go()
