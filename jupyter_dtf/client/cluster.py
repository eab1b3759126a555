"""``Cluster``: a cluster as a person holds it, started here or found by its name, and what runs on it."""

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
from ..schema.base import convert
from ..schema.checkpoint import Checkpoint, CheckpointInfo
from ..schema.cluster import as_jobs, default_jobs
from ..schema.cluster_request import DEFAULT_KIND, GRACE_S, ClusterRequest, split_common
from ..schema.design import Design
from ..schema.notify import Alarm, Notify
from ..schema.printable import shown_path
from ..schema.restart import Restart
from ..schema.run_options import RunOptions
from ..schema.strategy import Strategy
from . import holding, own_modules
from .answering import Answering
from .feeding import fed
from .fit_run import FitRun, name_of, seen_through
from .found_origin import code_of, shown_arguments, source_of
from .named import names_arguments
from .run import Run
from .search.on_cluster import Searching
from .secrets_left_out import words_without_secrets
from .servers import Servers, address_towards
from .session import session
from .submitting import request_of, submit, training_jobs
from .told import told
from .waiting import show_until_end, show_until_sent

if TYPE_CHECKING:
    from .fit import PreparedFit


class Cluster(Searching, Answering):
    """Start a cluster of TensorFlow tasks, or hold one that there is (``dtf.connect``).

    ``jobs`` maps job names to numbers of tasks, or is the number of workers. The constructor returns at once; the first
    run waits for what is not there yet. The cluster ends with the ``with`` block, with ``close()``, with this process,
    or ``grace_s`` (60) seconds after its last viewer has gone, but never during a run; ``keep=True`` lets it stay until
    it is stopped. Other keyword arguments are the options of the kind of cluster (``backend``), such as ``hosts`` and
    ``threads_per_host`` of ``local``. ``dtf.cluster()`` is the one that a notebook shares with its toolbar, the panel
    and ``%dtf``; a ``with`` block leaves that one running.

    ``design``: the path of a ``.dtf`` file, or a ``Design``, that says all this instead, and where each task runs.

    Raises InvalidInput, Conflict (the name is taken), Unavailable (the kind lacks something here, or a device that was
    drawn is not there), NotFound (for the path of a design).
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
                    "A design says which jobs, backend and options a cluster has. Received these beside it",
                    field="design",
                )
            drawn = design if isinstance(design, Design) else Design.open(design)
            request = check_design.request_of(drawn, name=name, **own)
        else:
            raw = {
                "jobs": default_jobs() if jobs is None else as_jobs(jobs),
                "name": name,
                "kind": backend,
                **own,
                "options": options,
            }
            request = convert(raw, ClusterRequest)
        self._start(request)

    @classmethod
    def start(cls, request: ClusterRequest) -> Cluster:
        """Start what a request describes. Raises as the constructor."""
        self = cls.__new__(cls)
        self._start(request)
        return self

    def _start(self, request: ClusterRequest) -> None:
        try:
            self._session = session()
            self._name = self._session.start_cluster(request)
        except Conflict as error:
            raise Conflict(f"{error}. `dtf.connect({request.name!r})` joins it") from None
        if not request.keep:
            self.end_with_process()

    @classmethod
    def connect(cls, name: str) -> Cluster:
        """Hold a cluster that is there, by its name. It stays when this process ends.

        Raises NotFound, Unavailable if it did not start or is of a version that this one does not understand,
        ClusterLost if it has died or does not answer.
        """
        self = cls._held(name)
        self._session.do(lambda fleet: fleet.cluster(name))
        return self.wait_ready()

    @classmethod
    def _held(cls, name: str) -> Cluster:
        self = cls.__new__(cls)
        self._name = name
        self._session = session()
        return self

    # -- running something on it --------------------------------------------------------------------------------

    def upload(self, *modules: Any) -> list[str]:
        """Have the runs that this process starts from now on take modules of your own along. Returns their names.

        Each is the path of a ``.py`` file or of a package's directory, or an imported module. They are read now: after
        a change, upload again. Tasks find them after all that is installed. Raises NotFound, InvalidInput.
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
        """Run ``main_fun(args, ctx)`` on every task, each in a process of its own.

        ``feed``: data of any form that ``fit`` takes but a function, ``x`` or a tuple ``(x, y)`` or ``(x, y,
        sample_weight)``, of which ``ctx.feed()`` is this task's shares as a ``tf.data.Dataset``;
        ``batch_size`` is of all tasks together, and each pass in an order of its own unless ``shuffle=False``.
        ``jobs`` restricts or changes which tasks take part; ``threads_per_task`` 0 divides a host's threads among its
        tasks, ``gpus_per_task`` None a machine's GPUs. ``gpu_memory`` caps what a task takes of each of its GPUs, in
        bytes (int) or as a fraction (float), so that several tasks may share one.
        ``trace_steps=(first, last)`` records what ran where in the steps that the program marks with
        ``ctx.traced(step)``, or in those calls of ``Session.run``, for ``run.placement()`` and ``run.timeline()``.
        ``restart``: what is done when a task dies or freezes. By default the run ends; with ``restart=dtf.Restart()``
        all of its tasks are started again, from the beginning of ``main_fun``, which finds what it has saved in
        ``ctx.checkpoint_dir`` and the number of the attempt in ``ctx.attempt``.
        ``checkpoint``: which of those that the program writes by ``ctx.checkpoint`` are kept, and where.
        ``notify``: what you want to be told of while you do not look (``dtf.Notify``); True, or a function of an alarm.
        ``modules``: paths of modules and packages of your own, or imported ones, that go along with this run.
        Waits until the end unless ``wait=False``; ``run.result()`` is what the tasks returned.
        Raises RunFailed with the traceback of the task that failed first, RunStopped, and Unavailable for devices that
        are not there.
        """
        options = RunOptions.among(locals())
        if not callable(main_fun):
            raise InvalidInput(f"main_fun is a function main_fun(args, ctx). Received: {main_fun!r:.200}")
        options.name = options.name or self._run_name(getattr(main_fun, "__name__", "program"))
        program: tuple[Any, ...] = (main_fun, (args,), {})
        held: list[holding.Held] = []
        feeds: list[Any] = []
        if feed is not None:
            from ..backend.task.fit.sources.stream import StreamSource
            from .fit_data import fed_with

            data, held = fed_with(feed, batch_size, shuffle, lambda: self.client)
            feeds = [data.data.feed] if isinstance(data.data, StreamSource) else []
            program = (run_fed, (data, main_fun, args), {})
        request = request_of(options, parameters=shown_arguments(args), code=code_of(main_fun, own=args))
        run = told(fed(feeds, lambda: submit(self._name, request, self._with_modules(modules, program), Run)), options)
        holding.keep(run, held)
        try:
            return _shown(run, wait)
        finally:
            holding.let_go()

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
        """Run a Python script on every task as ``python path arguments...`` would, with TF_CONFIG set.

        Where the script defines ``--job_name``, ``--task_index`` (or ``--task_id``), ``--ps_hosts`` and its like, or
        ``--cluster_spec``, and ``arguments`` do not give them, each task gives its own. All else is as in ``run``.
        Raises NotFound or InvalidInput for what is no Python script, and what ``run`` raises.
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
        """Train a model on every task: ``model.fit`` over the cluster, with the same arguments.

        ``model`` is a compiled Keras model or a function that returns one. ``x`` is what Keras takes (arrays in memory
        or in files, a ``tf.data.Dataset``, a ``PyDataset``, a generator), Dask collections, a ``dtf.Feed``, or a
        function ``data_fn(ctx)`` that returns a ``tf.data.Dataset``; so is ``validation_data``. ``batch_size`` is
        global, and left out for data that has batches of its own. ``scale_lr=True`` multiplies the learning rate by
        the number of tasks that share a step; it rises to that over the first ``warmup_epochs`` (5) epochs.
        ``trace_steps=(first, last)`` records what ran where in these steps, counted from 1 over all epochs, for
        ``run.placement()`` and ``run.timeline()``. After the run ``model`` holds the trained weights; ``run.model`` is
        the trained model in every case, ``run.history`` what Keras's ``History`` would be. Waits until the end unless
        ``wait=False``.

        ``restart``: what is done when a task dies or freezes. By default only the lost task is started again where the
        others can go on, otherwise all of them from the newest checkpoint, up to 3 times (``dtf.Restart()``); with
        ``restart=False`` the run ends. An error of the program itself ends it in any case.
        ``checkpoint=dtf.Checkpoint(every_steps=100)`` says when checkpoints are written; by default after every epoch
        where the strategy has them, unless that would hold the training up. ``False``: never. ``resume``: a
        run, its id, one of its ``checkpoints`` or a path of one, to go on where it was, up to ``epochs``.

        ``gpus_per_task``, ``gpu_memory``, ``notify`` and ``modules`` as in ``run``.

        Raises InvalidInput and Unavailable before anything starts, RunFailed with the failing task's traceback. A run
        that is stopped keeps what it has learnt.
        """
        options = RunOptions.among(locals())
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

        job.check_jobs(options.jobs)
        held = job.hold(lambda: self.client)
        request = request_of(
            options,
            kind="fit",
            strategy=job.strategy.name,
            may_be_spare=job.may_be_spare,
            rejoins=job.rejoins,
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
        holding.keep(run, held)
        try:
            return seen_through(run, wait)
        finally:
            holding.let_go()

    @names_arguments
    def servers(
        self,
        jobs: Mapping[str, int] | None = None,
        *,
        threads_per_task: int = 0,
        clients: Sequence[str] = (),
        wait: bool = True,
    ) -> Servers:
        """Start bare TensorFlow servers on the tasks, for graphs placed by hand: ``with cluster.servers() as servers``.

        They are a run like any other, which ends with the block, with ``servers.close()`` or when it is stopped.
        Only your processes on their machines reach them, and where they are elsewhere than this process, or on several
        machines, everybody on this machine and on those. ``clients``: addresses of further machines that may.
        ``wait=False`` returns before they serve. Raises RunFailed, RunStopped.
        """
        options = RunOptions.among({"name": "servers", "jobs": jobs, "threads_per_task": threads_per_task})
        self.wait_ready()
        hosts = self.info.hosts or self._session.call(lambda fleet: fleet.placed(self._name)).hosts
        machines = {address_towards(host.address.partition("://")[2]) for host in hosts}
        request = request_of(options, kind="servers")
        servers = Servers(submit(self._name, request, (serve, (sorted({*machines, *clients}),), {}), Run))
        return servers.wait_ready() if wait else servers


def _shown(run: Run, wait: bool) -> Run:
    """The run, which is shown until its end if it is waited for. Raises RunFailed, RunStopped."""
    if wait:
        show_until_end(run)
        run.raise_for_state()
    else:
        show_until_sent(run)
    return run
