"""Training from the notebook: ``Cluster.fit``."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ..schema import run_names
from ..schema.checkpoint import Checkpoint, CheckpointInfo
from ..schema.notify import Alarm, Notify
from ..schema.restart import Restart
from ..schema.run_options import STEP_GRACE_S, RunOptions
from ..schema.strategy import Strategy
from . import held_resources
from .argument_errors import names_arguments
from .cluster_handle import ClusterHandle
from .feeding import fed
from .fit_run import FitRun, name_of, seen_through
from .notifications import told
from .run import Run
from .submitting import request_of, submit, training_jobs

if TYPE_CHECKING:
    from .fit import PreparedFit


class Training(ClusterHandle):
    """The part of ``Cluster`` that trains."""

    @names_arguments
    def fit(
        self,
        model: Any,
        x: Any = None,
        y: Any = None,
        *,
        strategy: str | Strategy = "allreduce",
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: Any = "auto",
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        class_weight: dict[int, float] | None = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        validation_freq: Any = 1,
        scale_lr: bool = False,
        warmup_epochs: float | None = None,
        check: bool = True,
        resume: Run | CheckpointInfo | str | os.PathLike[str] | None = None,
        name: str = "",
        jobs: Mapping[str, int] | None = None,
        threads_per_task: int = 0,
        gpus_per_task: int | None = None,
        gpu_memory: int | float | None = None,
        trace_steps: tuple[int, int] | None = None,
        restart: Restart | bool | None = None,
        checkpoint: Checkpoint | bool | None = None,
        notify: Notify | Callable[[Alarm], object] | bool | None = None,
        modules: Sequence[Any] = (),
        wait: bool = True,
    ) -> FitRun:
        """Train a Keras model on all tasks of the cluster. Takes the arguments of ``model.fit``, and more.

        After the run, ``model`` holds the trained weights. ``run.model`` is always the trained model, and
        ``run.history`` is the equivalent of Keras's ``History``. If the run is stopped, the model keeps what it has
        learned so far.

        Args:
            model: A compiled Keras model, or a function without arguments that returns one.
            x: Anything that ``keras.Model.fit`` accepts (arrays of shape ``[examples, ...]`` in memory or in files, a
                ``tf.data.Dataset``, a ``keras.utils.PyDataset``, a generator), Dask collections, a ``dtf.Feed``, or a
                function ``data_fn(ctx)`` that returns a batched ``tf.data.Dataset``.
            y: The targets, of shape ``[examples, ...]``, if ``x`` does not contain them.
            strategy: ``"allreduce"``, ``"ps"``, ``"mirrored"``, or a ``dtf.AllReduce``, ``dtf.ParameterServer``,
                ``dtf.Pipeline`` or ``dtf.InGraph``.
            batch_size: The global batch size: examples per step over all tasks together. Default: 32. Omit it for data
                that is already batched.
            epochs: The total number of epochs, including those before ``initial_epoch``, as in Keras.
            verbose: Ignored; the run shows its own progress.
            callbacks: Keras callbacks, which run in the tasks.
            validation_split: The fraction of the examples to hold out for validation, taken from the end. Arrays only.
            validation_data: ``(x, y)``, ``(x, y, sample_weight)``, or data of any form that ``x`` may have.
            shuffle: Shuffle the examples before each epoch.
            class_weight: A dict that maps the numbers of classes to weights.
            sample_weight: A weight for each example, of shape ``[examples]``.
            initial_epoch: The epoch to start with, counted from 0.
            steps_per_epoch: Steps in an epoch. By default one pass over the data.
            validation_steps: Steps in each validation pass. By default one pass over the validation data.
            validation_batch_size: Examples per validation step. By default ``batch_size``.
            validation_freq: Validate every ``validation_freq`` epochs or, if this is a list, after the epochs in it.
            scale_lr: Multiply the learning rate by the number of tasks that share a step.
            warmup_epochs: Epochs over which the learning rate rises to its scaled value; 5 by default. Requires
                ``scale_lr=True``.
            check: Compare the first step with the same step in a single process, and the trained model's outputs in
                this process with its outputs in the task that trained it.
            resume: The run, run id, checkpoint or checkpoint path from which to continue training, up to ``epochs``.
            name: The name of the run. By default the model's name, with a number appended if the name is taken.
            jobs: See ``run``.
            threads_per_task: See ``run``.
            gpus_per_task: See ``run``.
            gpu_memory: See ``run``.
            trace_steps: ``(first, last)``, counted from 1 over all epochs: record which operations ran on which device
                in these steps, for ``run.timeline()`` and ``run.placement()``.
            restart: What happens when a task dies or freezes. By default (``dtf.Restart()``) only the lost task starts
                again if the others can continue without it; otherwise all tasks start again from the newest checkpoint,
                up to 3 times. With ``False`` the run ends. An error in the program itself always ends it.
            checkpoint: When to write checkpoints, for example ``dtf.Checkpoint(every_steps=100)``. By default after
                every epoch, unless this would noticeably slow training down. ``False``: never.
            notify: See ``run``.
            modules: See ``run``.
            wait: Wait until training has ended, showing its progress. If False, return immediately.

        Returns:
            The run.

        Raises:
            InvalidInput: If an argument is invalid. Raised before anything starts.
            Unavailable: If a required device or job does not exist. Raised before anything starts.
            RunFailed: With the traceback of the task that failed first.
            ModelDiffers: If the trained model's outputs in this process differ from those in the task that trained it.

        Example:
            >>> run = cluster.fit(model, x, y, batch_size=256, epochs=5, validation_split=0.1)
            >>> run.history["val_loss"][-1]
        """
        options = RunOptions.among(locals())
        options.stop_grace_s = STEP_GRACE_S
        from . import fit as fit_client
        from .checkpoints import path_of, run_of

        job = fit_client.prepare(
            model,
            x,
            y,
            strategy=strategy,
            batch_size=batch_size,
            epochs=epochs,
            verbose=verbose,
            callbacks=callbacks,
            validation_split=validation_split,
            validation_data=validation_data,
            shuffle=shuffle,
            class_weight=class_weight,
            sample_weight=sample_weight,
            initial_epoch=initial_epoch,
            steps_per_epoch=steps_per_epoch,
            validation_steps=validation_steps,
            validation_batch_size=validation_batch_size,
            validation_freq=validation_freq,
            scale_lr=scale_lr,
            warmup_epochs=warmup_epochs,
            check=check,
            checkpoint=options.checkpoint,
            resume=None if resume is None else path_of(resume),
        )
        options.name = options.name or self._run_name(job.name)
        options.jobs = training_jobs(job.strategy, options.jobs or self.jobs)
        return self._start_fit(options, modules, job, wait, "" if resume is None else run_of(resume))

    def _start_fit(
        self, options: RunOptions, modules: Sequence[Any], job: PreparedFit, wait: bool, resumed_from: str = ""
    ) -> FitRun:
        def again(job: PreparedFit, run: Run, cluster: Any, wait: bool) -> FitRun:
            on = self if cluster is None else self._held(name_of(cluster))
            named = msgspec.structs.replace(options, name=run_names.again(run.info.name, self._taken_names()))
            return on._start_fit(named, modules, job, wait, run.id)

        job.check_jobs(options.jobs, options.restart)
        held = job.hold(lambda: self.client)
        request = request_of(
            options,
            kind="fit",
            strategy=job.strategy.name,
            may_be_spare=job.may_be_spare,
            rejoins=job.rejoins,
            worker_group=job.worker_group(options.jobs),
            parameters=job.parameters,
            goes_on=job.goes_on,
            origin=job.origin,
            code=job.code,
            design=job.design,
            resumed_from=resumed_from,
        )
        program = self._with_modules(modules, job.program)

        def begin() -> FitRun:
            return submit(
                self._name,
                request,
                program,
                lambda run_id: FitRun(run_id, job, again),
                lambda: self._with_modules(modules, job.program_without_data),
            )

        run = told(fed(job.feeds, begin), options)
        held_resources.keep(run, held)
        try:
            return seen_through(run, wait)
        finally:
            held_resources.let_go()
