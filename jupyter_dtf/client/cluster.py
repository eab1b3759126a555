"""``Cluster``: the public handle of a cluster, started here or found by name, with methods that run programs on it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ..backend.planning import check_design
from ..backend.task.context import serve
from ..backend.task.fed_program import run as run_fed
from ..backend.task.script_program import run as run_script
from ..errors import Conflict, InvalidInput
from ..schema import run_names
from ..schema.arguments import check_addresses, check_path, check_text, plain
from ..schema.base import convert
from ..schema.checkpoint import Checkpoint, CheckpointInfo
from ..schema.cluster import as_jobs, default_jobs
from ..schema.cluster_request import DEFAULT_KIND, GRACE_S, ClusterRequest, split_common
from ..schema.design import Design
from ..schema.notify import Alarm, Notify
from ..schema.printable import shown_path
from ..schema.restart import Restart
from ..schema.run_options import STEP_GRACE_S, RunOptions
from ..schema.strategy import Strategy
from . import held_resources, own_modules
from .answering import Answering
from .argument_errors import names_arguments
from .feeding import fed
from .fit_run import FitRun, name_of, seen_through
from .found_origin import code_of, shown_arguments, source_of
from .notifications import told
from .run import Run
from .search.on_cluster import Searching
from .secrets_left_out import words_without_secrets
from .servers import Servers, address_towards
from .session import session
from .submitting import request_of, submit, training_jobs
from .waiting import show_until_end, show_until_sent

if TYPE_CHECKING:
    from .fit import PreparedFit


class Cluster(Searching, Answering):
    """A cluster of TensorFlow tasks on Dask workers.

    The constructor starts a new cluster and returns immediately; the first run waits until the cluster is ready. Use
    ``dtf.connect(name)`` for a cluster that is already running, and ``dtf.cluster()`` for the cluster that this
    notebook shares with its toolbar, the side panel and ``%dtf`` (a ``with`` block does not end that cluster).

    The cluster ends with its ``with`` block, with ``close()``, or with this process. It also ends ``grace_s`` seconds
    after its last client has disconnected, but never during a run.

    Args:
        jobs: The number of tasks of each job, ``{"chief": 1, "worker": 2, "ps": 1}``, or only the number of workers. By
            default two workers.
        name: 1 to 64 lower-case letters, digits, hyphens or underscores. By default an unused name is chosen.
        backend: The kind of cluster: ``"local"``, ``"cuda"``, ``"ssh"``, ``"slurm"``, ``"kubernetes"`` and others;
            ``jupyter dtf start --help`` lists those available here.
        design: A ``.dtf`` file drawn in the designer, or a ``dtf.Design``. It replaces ``jobs``, ``backend`` and the
            backend's options, and assigns each task to a host.
        keep: Keep the cluster running until it is stopped explicitly.
        grace_s: Seconds that the cluster keeps running after its last client has disconnected.
        **options: Options of the backend, such as ``hosts`` and ``threads_per_host`` of ``"local"``.

    Raises:
        InvalidInput: If an argument is invalid.
        NotFound: If ``design`` names a file that does not exist.
        Conflict: If a cluster with this name is already running.
        Unavailable: If the backend cannot be used here, or a device of the design does not exist.

    Example:
        >>> import jupyter_dtf as dtf
        >>> with dtf.Cluster(jobs={"worker": 2}) as cluster:
        ...     run = cluster.fit(model, x, y, batch_size=64, epochs=3)
    """

    def __init__(
        self,
        jobs: Mapping[str, int] | int | None = None,
        *,
        name: str = "",
        backend: str = DEFAULT_KIND,
        design: Design | str | os.PathLike[str] | None = None,
        keep: bool = False,
        grace_s: float = GRACE_S,
        **options: Any,
    ) -> None:
        own, options = split_common(options)
        own |= {"keep": keep, "grace_s": grace_s}
        if design is not None:
            if jobs is not None or backend != DEFAULT_KIND or options:
                raise InvalidInput(
                    "`design` must not be combined with jobs, backend or options, which the design specifies",
                    field="design",
                )
            drawn = design if isinstance(design, Design) else Design.open(check_path(design, "design"))
            request = check_design.request_of(drawn, name=name, **own)
        else:
            raw = {
                "jobs": default_jobs() if jobs is None else as_jobs(jobs),
                "name": name,
                "kind": backend,
                **own,
                "options": options,
            }
            request = convert(plain(raw), ClusterRequest)
        self._start(request)

    @classmethod
    def start(cls, request: ClusterRequest) -> Cluster:
        """Start the cluster that a request describes.

        Args:
            request: The validated request, as the panel, the magics and the command line create it.

        Returns:
            The new cluster, which may still be starting.

        Raises:
            Conflict: If a cluster with this name is already running.
            Unavailable: If the backend cannot be used here.
        """
        self = cls.__new__(cls)
        self._start(request)
        return self

    def _start(self, request: ClusterRequest) -> None:
        try:
            self._session = session()
            self._name = self._session.start_cluster(request)
        except Conflict as error:
            raise Conflict(f"{error}. `dtf.connect({request.name!r})` connects to it") from None
        if not request.keep:
            self.end_with_process()

    @classmethod
    def connect(cls, name: str) -> Cluster:
        """Connect to a running cluster by name. The cluster keeps running when this process ends.

        Args:
            name: The name of the cluster.

        Returns:
            The cluster, ready for runs.

        Raises:
            NotFound: If there is no cluster with this name.
            Unavailable: If the cluster failed to start, or runs an incompatible version of jupyter_dtf.
            ClusterLost: If the cluster has died or does not respond.
        """
        self = cls._held(check_text(name, "name", "the name of a cluster"))
        self._session.do(lambda fleet: fleet.cluster(name))
        return self.wait_ready()

    @classmethod
    def _held(cls, name: str) -> Cluster:
        self = cls.__new__(cls)
        self._name = name
        self._session = session()
        return self

    # -- running programs ---------------------------------------------------------------------------------------

    def upload(self, *modules: Any) -> list[str]:
        """Send your own modules along with every run that this process starts on this cluster from now on.

        The files are read now; upload again after changing them. In a task, installed packages take precedence over
        uploaded modules of the same name.

        Args:
            *modules: Paths of ``.py`` files or package directories, or imported modules.

        Returns:
            The names under which the modules can be imported.

        Raises:
            NotFound: If a path does not exist.
            InvalidInput: If an argument is not a module, or another module with the same name is installed.

        Example:
            >>> cluster.upload("layers.py", "my_package/")
            ['layers', 'my_package']
        """
        return own_modules.upload(self._this_one, modules)

    @names_arguments
    def run(
        self,
        main_fun: Callable[..., Any],
        args: Any = None,
        *,
        feed: Any = None,
        batch_size: int | None = None,
        shuffle: bool = True,
        name: str = "",
        jobs: Mapping[str, int] | None = None,
        threads_per_task: int = 0,
        gpus_per_task: int | None = None,
        gpu_memory: int | float | None = None,
        stop_grace_s: float = 10.0,
        environment: Mapping[str, str] | None = None,
        trace_steps: tuple[int, int] | None = None,
        restart: Restart | bool | None = None,
        checkpoint: Checkpoint | bool | None = None,
        notify: Notify | Callable[[Alarm], object] | bool | None = None,
        modules: Sequence[Any] = (),
        wait: bool = True,
    ) -> Run:
        """Run ``main_fun(args, ctx)`` on every task, each in its own process.

        Args:
            main_fun: The program. It is called with ``args`` and the task's ``dtf.Context``.
            args: Anything that can be pickled; passed to every task unchanged.
            feed: Data in any form that ``fit`` accepts except a function: ``x``, ``(x, y)`` or
                ``(x, y, sample_weight)``. ``ctx.feed()`` returns this task's share of it as a ``tf.data.Dataset``.
            batch_size: Examples per batch of ``feed``, over all tasks together.
            shuffle: Read ``feed`` in a new random order in each pass.
            name: The name of the run. By default the function's name, with a number appended if the name is taken.
            jobs: The jobs that take part, with the number of tasks of each. By default all jobs of the cluster.
            threads_per_task: Threads for TensorFlow in each task. 0 divides a host's threads among its tasks.
            gpus_per_task: GPUs for each task. None divides a machine's GPUs among its tasks.
            gpu_memory: The maximum memory that a task may allocate on each of its GPUs, in bytes (int) or as a fraction
                of the GPU's memory (float), so that several tasks can share a GPU. None: no limit.
            stop_grace_s: Seconds that the program has to end on its own after a stop request before it is killed.
            environment: Environment variables for the tasks.
            trace_steps: ``(first, last)``, counted from 1: record which operations ran on which device in the steps
                that the program marks with ``ctx.traced(step)`` or, if it calls ``Session.run``, in the calls with
                these numbers. See ``run.timeline()``.
            restart: What happens when a task dies or freezes. By default the run ends. With ``dtf.Restart()`` all
                tasks start again from the beginning of ``main_fun``, which finds its saved files in
                ``ctx.checkpoint_dir`` and the number of the attempt in ``ctx.attempt``.
            checkpoint: Which of the checkpoints that the program writes with ``ctx.checkpoint`` are kept, and where.
            notify: What to notify you about: a ``dtf.Notify``, True, or a function that is called with each alarm.
            modules: Paths of your own modules and packages, or imported modules, to send along with this run.
            wait: Wait until the run has ended, showing its progress. If False, return immediately.

        Returns:
            The run. ``run.result()`` returns the tasks' return values, indexed by rank or by name.

        Raises:
            InvalidInput: If an argument is invalid.
            Unavailable: If a required device does not exist.
            RunFailed: With the traceback of the task that failed first.
            RunStopped: If the run was stopped.

        Example:
            >>> def main_fun(args, ctx: dtf.Context):
            ...     return f"{ctx.job_name}:{ctx.task_index} of {ctx.size}, {args}"
            >>> run = cluster.run(main_fun, "hello")
            >>> run.result()["worker:1"]
            'worker:1 of 2, hello'
        """
        options = RunOptions.among(locals())
        if not callable(main_fun):
            raise InvalidInput(f"`main_fun` must be a function main_fun(args, ctx), got {main_fun!r:.200}")
        options.name = options.name or self._run_name(getattr(main_fun, "__name__", "program"))
        program: tuple[Any, ...] = (main_fun, (args,), {})
        held: list[held_resources.Held] = []
        feeds: list[Any] = []
        if feed is not None:
            from ..backend.task.fit.sources.stream import StreamSource
            from .fit_data import fed_with

            data, held = fed_with(feed, batch_size, shuffle, lambda: self.client)
            feeds = [data.data.feed] if isinstance(data.data, StreamSource) else []
            program = (run_fed, (data, main_fun, args), {})
        request = request_of(options, parameters=shown_arguments(args), code=code_of(main_fun, own=args))
        run = told(fed(feeds, lambda: submit(self._name, request, self._with_modules(modules, program), Run)), options)
        held_resources.keep(run, held)
        try:
            return _shown(run, wait)
        finally:
            held_resources.let_go()

    @names_arguments
    def run_script(
        self,
        path: str | Path,
        arguments: Sequence[str] = (),
        *,
        name: str = "",
        jobs: Mapping[str, int] | None = None,
        threads_per_task: int = 0,
        gpus_per_task: int | None = None,
        gpu_memory: int | float | None = None,
        stop_grace_s: float = 10.0,
        environment: Mapping[str, str] | None = None,
        trace_steps: tuple[int, int] | None = None,
        restart: Restart | bool | None = None,
        checkpoint: Checkpoint | bool | None = None,
        notify: Notify | Callable[[Alarm], object] | bool | None = None,
        modules: Sequence[Any] = (),
        wait: bool = True,
    ) -> Run:
        """Run a Python script on every task, as ``python path arguments...`` would, with ``TF_CONFIG`` set.

        If the script defines flags such as ``--job_name``, ``--task_index`` (or ``--task_id``), ``--ps_hosts`` or
        ``--cluster_spec``, and ``arguments`` does not set them, each task passes its own values for them.

        Args:
            path: The script.
            arguments: The command-line arguments of the script.
            name: The name of the run. By default the name of the file.
            jobs: See ``run``.
            threads_per_task: See ``run``.
            gpus_per_task: See ``run``.
            gpu_memory: See ``run``.
            stop_grace_s: See ``run``.
            environment: See ``run``.
            trace_steps: See ``run``.
            restart: See ``run``.
            checkpoint: See ``run``.
            notify: See ``run``.
            modules: See ``run``.
            wait: See ``run``.

        Returns:
            The run. Its tasks return nothing.

        Raises:
            NotFound: If there is no such file.
            InvalidInput: If the file is not Python, or an argument is invalid.
            RunFailed: With the traceback of the task that failed first.
            RunStopped: If the run was stopped.

        Example:
            >>> cluster.run_script("train.py", ["--epochs", "3"])
        """
        options = RunOptions.among(locals())
        from . import script_run as scripts

        script = scripts.read(path, arguments)
        options.name = options.name or self._run_name(shown_path(Path(path).name))
        arguments = shown_path(shlex.join(words_without_secrets(script.arguments)))
        parameters = {"script": shown_path(script.path), "arguments": arguments}
        code = [source_of(script.path, script.source)]
        request = request_of(options, kind="script", parameters=parameters, code=code)
        program = self._with_modules(modules, (run_script, (script,), {}))
        return _shown(told(submit(self._name, request, program, Run), options), wait)

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
            on = self if cluster is None else Cluster._held(name_of(cluster))
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

    @names_arguments
    def servers(
        self,
        jobs: Mapping[str, int] | None = None,
        *,
        threads_per_task: int = 0,
        clients: Sequence[str] | str = (),
        wait: bool = True,
    ) -> Servers:
        """Start bare TensorFlow servers on the tasks, for graphs that you place by hand.

        The servers are the tasks of an ordinary run, which ends with the ``with`` block, with ``servers.close()``, or
        when it is stopped. If all servers are on this machine, only your own processes can connect to them. Otherwise
        every user of this machine and of the servers' machines can connect.

        Args:
            jobs: See ``run``.
            threads_per_task: See ``run``.
            clients: Addresses or names of additional machines that may connect.
            wait: Wait until all servers accept connections.

        Returns:
            The servers.

        Raises:
            InvalidInput: If an argument is invalid.
            RunFailed: If a server could not start.
            RunStopped: If the run was stopped while starting.

        Example:
            >>> with cluster.servers() as servers:
            ...     with tf.compat.v1.Session(servers.target) as session:
            ...         session.run(fetches)
        """
        options = RunOptions.among({"name": "servers", "jobs": jobs, "threads_per_task": threads_per_task})
        others = check_addresses(clients, "clients")
        self.wait_ready()
        hosts = self.info.hosts or self._session.call(lambda fleet: fleet.placed(self._name)).hosts
        machines = {address_towards(host.address.partition("://")[2]) for host in hosts}
        request = request_of(options, kind="servers")
        servers = Servers(submit(self._name, request, (serve, (sorted({*machines, *others}),), {}), Run))
        return servers.wait_ready() if wait else servers


def _shown(run: Run, wait: bool) -> Run:
    """Return the run once it has ended (``wait``) or its program and data have been sent, showing it in the meantime.

    Raises RunFailed and RunStopped.
    """
    if wait:
        show_until_end(run)
        run.raise_for_state()
    else:
        show_until_sent(run)
    return run
