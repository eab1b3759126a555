"""``Cluster``: a cluster as a person holds it, started here or found by its name."""

from __future__ import annotations

import atexit
import contextlib
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from ..backend import clusters as cluster_starts
from ..backend import designs
from ..backend.plan import devices_of
from ..backend.task.context import serve
from ..backend.task.script import run as run_script
from ..errors import DtfError, InvalidInput, NotFound
from ..schema import payload
from ..schema.api import ClusterInfo, ClusterRequest, ClusterState
from ..schema.base import convert
from ..schema.cluster import ClusterSpec
from ..schema.design import Design
from ..schema.run import RunInfo, RunRequest
from ..schema.strategy import Strategy
from ..schema.trace import check_steps
from . import words
from .fit_run import FitRun
from .run import Run
from .servers import Servers
from .session import session
from .waiting import show_until_end

GRACE_S = 30.0
"""How long a cluster stays after its last viewer has gone, where nothing else was said."""


class Cluster:
    """Start a cluster of TensorFlow tasks, or hold one that there is (``dtf.connect``).

    ``jobs`` maps job names to numbers of tasks. The constructor returns at once; the first run waits for what is not
    there yet. The cluster ends with the ``with`` block, with ``close()``, with this process, or 30 seconds after its
    last viewer has gone (``grace_s``), but never during a run; ``keep=True`` lets it stay until it is stopped. Other
    keyword arguments are the options of the kind of cluster (``backend``), such as ``hosts`` and ``threads_per_host``
    of ``local``.

    ``design``: the path of a ``.dtf`` file, or a ``Design``, that says all this instead, and where each task runs.

    Raises InvalidInput, Conflict (the name is taken), Unavailable (the kind lacks something here, or a device that was
    drawn is not there), NotFound (for the path of a design).
    """

    def __init__(
        self,
        jobs: Mapping[str, int] | None = None,
        *,
        name: str = "",
        backend: str = "local",
        design: Design | str | os.PathLike[str] | None = None,
        keep: bool = False,
        grace_s: float = GRACE_S,
        **options: Any,
    ) -> None:
        if design is not None:
            if jobs is not None or backend != "local" or options:
                raise InvalidInput(
                    "A design says which jobs, backend and options a cluster has. Received these beside it",
                    field="design",
                )
            drawn = design if isinstance(design, Design) else Design.open(design)
            request = designs.request_of(drawn, name=name, keep=keep, grace_s=grace_s)
        else:
            raw = {
                "jobs": dict(jobs) if jobs is not None else {"worker": 2},
                "name": name,
                "kind": backend,
                "keep": keep,
                "grace_s": grace_s,
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
        started = cluster_starts.start(request)
        self._name = started.connection.name
        self._owned = True
        self._session = session()
        self._session.post(lambda fleet: fleet.adopt(started))
        if not request.keep:
            atexit.register(self._close_at_exit)

    @classmethod
    def connect(cls, name: str) -> Cluster:
        """Hold a cluster that is there, by its name. It stays when this process ends. Raises NotFound."""
        self = cls.__new__(cls)
        self._name = name
        self._owned = False
        self._session = session()
        self._session.do(lambda fleet: fleet.cluster(name))
        self._session.call(lambda fleet: fleet.ready(name))
        return self

    # -- what it is ---------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self._name

    @property
    def info(self) -> ClusterInfo:
        """State, jobs, hosts and their load. Raises NotFound when it is gone."""
        return self._session.do(lambda fleet: fleet.cluster(self._name))

    @property
    def status(self) -> str:
        """``starting``, ``running``, ``stopping``, ``stopped``, ``failed`` or ``lost``."""
        try:
            return self.info.state.value
        except NotFound:
            return ClusterState.STOPPED.value

    @property
    def jobs(self) -> dict[str, int]:
        """Numbers of tasks per job."""
        return dict(self.info.jobs)

    @property
    def spec(self) -> ClusterSpec:
        """An endpoint for each task, reserved for as long as the cluster has these jobs.

        A run has endpoints of its own (``ctx.cluster_spec``), so that runs never meet on a port.
        """
        self.wait_ready()
        return ClusterSpec.parse(self._session.call(lambda fleet: fleet.spec(self._name)))

    @property
    def devices(self) -> list[str]:
        """The device strings of all tasks, ``/job:worker/task:0/device:CPU:0`` first; of GPUs, once there are hosts.

        A run that asks for other ``gpus_per_task`` has other ones.
        """
        info = self.info
        gpus = {seat.task: len(seat.gpus) for seat in info.tasks}
        return [
            device
            for job, count in info.jobs.items()
            for index in range(count)
            for device in devices_of(job, index, gpus.get(f"{job}:{index}", 0))
        ]

    @property
    def runs(self) -> list[Run]:
        """The runs of this cluster, newest first."""
        created = self.info.created
        known = self._session.hub.runs()
        return [Run(info.id) for info in known if info.cluster == self._name and info.created >= created]

    @property
    def dashboard_url(self) -> str:
        """Dask's own dashboard, which is started when first asked for."""
        self.wait_ready()
        return self._session.call(lambda fleet: fleet.dashboard(self._name))

    def wait_ready(self, timeout_s: float | None = None) -> Cluster:
        """Wait until the cluster answers. Raises Unavailable with the reason if it could not start, TimeoutError."""
        self._session.call(lambda fleet: fleet.ready(self._name), timeout_s)
        return self

    # -- what to do with it -------------------------------------------------------------------------------------

    def save_design(self, path: str | os.PathLike[str]) -> Design:
        """Write the cluster as it runs, each task where it is, to a ``.dtf`` file. Waits for the hosts to be there.

        What a design of that name has beside its cluster stays. Raises InvalidInput if the file is no design,
        Unavailable if it cannot be written.
        """
        self.wait_ready()
        info = self._session.call(lambda fleet: fleet.placed(self._name))
        try:
            design = Design.open(path)
        except NotFound:
            design = Design()
        design.cluster = designs.as_drawn(info)
        design.save(path)
        return design

    def scale(self, jobs: Mapping[str, int]) -> Cluster:
        """New numbers of tasks, for the runs to come. Raises InvalidInput."""
        self.wait_ready()
        self._session.call(lambda fleet: fleet.scale(self._name, jobs))
        return self

    def close(self, timeout_s: float = 30.0) -> None:
        """End the cluster and its runs, and wait until nothing of it is left. Does nothing to one that is gone."""
        atexit.unregister(self._close_at_exit)
        with contextlib.suppress(NotFound):
            self._session.call(lambda fleet: fleet.close_cluster(self._name), timeout_s)

    def _close_at_exit(self) -> None:
        with contextlib.suppress(DtfError, TimeoutError):
            self.close()

    def run(
        self,
        main_fun: Callable[..., Any],
        args: Any = None,
        *,
        name: str = "",
        jobs: Mapping[str, int] | None = None,
        threads_per_task: int = 0,
        gpus_per_task: int | None = None,
        gpu_memory: int | float | None = None,
        stop_grace_s: float = 10.0,
        environment: Mapping[str, str] | None = None,
        trace_steps: tuple[int, int] | None = None,
        wait: bool = True,
    ) -> Run:
        """Run ``main_fun(args, ctx)`` on every task, each in a process of its own.

        ``jobs`` restricts or changes which tasks take part; ``threads_per_task`` 0 divides a host's threads among its
        tasks, ``gpus_per_task`` None a machine's GPUs. ``gpu_memory`` caps what a task takes of each of its GPUs, in
        bytes (int) or as a fraction (float), so that several tasks may share one.
        ``trace_steps=(first, last)`` records what ran where in the steps that the program marks with
        ``ctx.traced(step)``, or in those calls of ``Session.run``, for ``run.placement()`` and ``run.timeline()``.
        Waits until the end unless ``wait=False``; ``run.result()`` is what the tasks returned.
        Raises RunFailed with the traceback of the task that failed first, RunStopped, and Unavailable for devices that
        are not there.
        """
        if not callable(main_fun):
            raise InvalidInput(f"main_fun is a function main_fun(args, ctx). Received: {main_fun!r:.200}")
        request = self._request(
            name=name or getattr(main_fun, "__name__", "program"),
            jobs=dict(jobs or {}),
            threads_per_task=threads_per_task,
            gpus_per_task=gpus_per_task,
            gpu_memory=gpu_memory,
            stop_grace_s=stop_grace_s,
            environment=dict(environment or {}),
            trace_steps=check_steps(trace_steps),
        )
        run = Run(self._submit(request, (main_fun, (args,), {})).id)
        if wait:
            show_until_end(run)
            run.raise_for_state()
        return run

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
        wait: bool = True,
    ) -> Run:
        """Run a Python script on every task as ``python path arguments...`` would, with TF_CONFIG set.

        Where the script defines ``--job_name``, ``--task_index`` (or ``--task_id``), ``--ps_hosts`` and its like, or
        ``--cluster_spec``, and ``arguments`` do not give them, each task gives its own. All else is as in ``run``.
        Raises NotFound or InvalidInput for what is no Python script, and what ``run`` raises.
        """
        from . import script as scripts

        script = scripts.read(path, arguments)
        request = self._request(
            name=name or Path(path).name,
            kind="script",
            jobs=dict(jobs or {}),
            threads_per_task=threads_per_task,
            gpus_per_task=gpus_per_task,
            gpu_memory=gpu_memory,
            stop_grace_s=stop_grace_s,
            environment=dict(environment or {}),
            trace_steps=check_steps(trace_steps),
            parameters={"script": script.path, "arguments": shlex.join(script.arguments)},
        )
        run = Run(self._submit(request, (run_script, (script,), {})).id)
        if wait:
            show_until_end(run)
            run.raise_for_state()
        return run

    def fit(
        self,
        model: Any,
        x: Any = None,
        y: Any = None,
        *,
        strategy: Any = "allreduce",
        name: str = "",
        jobs: Mapping[str, int] | None = None,
        threads_per_task: int = 0,
        gpus_per_task: int | None = None,
        gpu_memory: int | float | None = None,
        trace_steps: tuple[int, int] | None = None,
        wait: bool = True,
        **fit_args: Any,
    ) -> FitRun:
        """Train a model on every task: ``model.fit`` over the cluster, with the same arguments.

        ``model`` is a compiled Keras model or a function that returns one. ``x`` and ``y`` are arrays (or lists or
        dicts of them), or ``x`` is a function ``data_fn(ctx)`` that returns a ``tf.data.Dataset``. ``batch_size`` is
        global. ``scale_lr=True`` multiplies the learning rate by the number of tasks that share a step; it rises to
        that over the first ``warmup_epochs`` (5) epochs. ``trace_steps=(first, last)`` records what ran where in these
        steps, counted from 1 over all epochs, for ``run.placement()`` and ``run.timeline()``. After the run ``model``
        holds the trained weights; ``run.model`` is the trained model in every case, ``run.history`` what Keras's
        ``History`` would be. Waits until the end unless ``wait=False``.

        ``gpus_per_task`` and ``gpu_memory`` as in ``run``.

        Raises InvalidInput and Unavailable before anything starts, RunFailed with the failing task's traceback. A run
        that is stopped keeps what it has learnt.
        """
        from . import fit as fit_client
        from . import pipeline

        job = fit_client.prepare(model, x, y, strategy=strategy, **fit_args)
        tasks = _jobs_of(job.strategy, jobs or self.jobs)
        pipeline.check_jobs(job.strategy, tasks)
        job.check_tasks(sum(tasks.get(name, 0) for name in ("chief", "worker")))
        request = self._request(
            name=name or job.name,
            kind="fit",
            strategy=job.strategy.name,
            may_be_spare=job.may_be_spare,
            jobs=tasks,
            threads_per_task=threads_per_task,
            gpus_per_task=gpus_per_task,
            gpu_memory=gpu_memory,
            trace_steps=check_steps(trace_steps),
            parameters=job.parameters,
        )
        run = FitRun(self._submit(request, job.program).id, job)
        if wait:
            try:
                show_until_end(run)
            except KeyboardInterrupt:
                if run.info.state.is_final:  # stopped, not left: the model keeps what it has learnt
                    run.finish()
                raise
            run.finish()
        return run

    def servers(
        self, jobs: Mapping[str, int] | None = None, *, threads_per_task: int = 0, wait: bool = True
    ) -> Servers:
        """Start bare TensorFlow servers on the tasks, for graphs placed by hand: ``with cluster.servers() as servers``.

        They are a run like any other, which ends with the block, with ``servers.close()`` or when it is stopped.
        ``wait=False`` returns before they serve. Raises RunFailed, RunStopped.
        """
        request = self._request(
            name="servers", kind="servers", jobs=dict(jobs or {}), threads_per_task=threads_per_task
        )
        servers = Servers(Run(self._submit(request, (serve, (), {})).id))
        return servers.wait_ready() if wait else servers

    # -- inside -------------------------------------------------------------------------------------------------

    def _request(self, **fields: Any) -> RunRequest:
        here = os.getcwd()
        return RunRequest(sys_path=[entry or here for entry in sys.path], cwd=here, **fields)

    def _submit(self, request: RunRequest, program: tuple[Any, ...]) -> RunInfo:
        data = payload.pack(program)
        self.wait_ready()
        return self._session.call(lambda fleet: fleet.submit(self._name, request, data))

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        from .display import cluster_bundle

        return cluster_bundle(self)

    def __repr__(self) -> str:
        try:
            info = self.info
        except NotFound:
            return f"<Cluster {self._name}: stopped>"
        return f"<Cluster {info.name}: {info.state.value}, {info.kind}, {words.jobs(info.jobs)}>"


def _jobs_of(strategy: Strategy, jobs: Mapping[str, int]) -> dict[str, int]:
    """The tasks that take part in training under a strategy."""
    training = {job: count for job, count in jobs.items() if job in strategy.jobs}
    if not {"chief", "worker"} & set(training):
        raise InvalidInput(f"Training needs a job worker or chief. Received: {dict(jobs)!r}", field="jobs")
    if "ps" in strategy.jobs and "ps" not in training:
        raise InvalidInput(f"Parameter servers need a job ps. Received: {dict(jobs)!r}", field="jobs")
    backup = getattr(strategy, "backup_workers", 0)
    if backup >= (workers := sum(count for job, count in training.items() if job != "ps")):
        raise InvalidInput(
            f"A step takes the gradients of workers - backup_workers tasks, at least one. Received: {workers} workers, "
            f"backup_workers={backup}",
            field="strategy.backup_workers",
        )
    return training


def connect(name: str) -> Cluster:
    """Hold a cluster that was started in the panel, by the command line or elsewhere. Raises NotFound."""
    return Cluster.connect(name)


def clusters() -> list[Cluster]:
    """All clusters of this user that answer, oldest first."""
    infos = session().do(lambda fleet: fleet.clusters())
    return [Cluster.connect(info.name) for info in infos if info.state is ClusterState.RUNNING]


def run(run_id: str) -> Run:
    """Hold a run, live or past, by its id. Raises NotFound."""
    found = Run(run_id)
    found.info  # noqa: B018 - raises NotFound
    return found


def runs() -> list[Run]:
    """All runs, live and past, newest first."""
    return [Run(info.id) for info in session().hub.runs()]
