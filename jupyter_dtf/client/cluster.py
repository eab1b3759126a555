"""``Cluster``: the public handle of a cluster, started here or found by name, with methods that run programs on it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..backend.planning import check_design
from ..backend.task.fed_program import run as run_fed
from ..backend.task.script_program import run as run_script
from ..errors import Conflict, InvalidInput
from ..schema.arguments import check_path, check_text, plain
from ..schema.base import convert
from ..schema.checkpoint import Checkpoint
from ..schema.cluster import as_jobs, default_jobs
from ..schema.cluster_request import DEFAULT_KIND, GRACE_S, ClusterRequest, split_common
from ..schema.design import Design
from ..schema.notify import Alarm, Notify
from ..schema.printable import shown_path
from ..schema.restart import Restart
from ..schema.run_options import RunOptions
from . import held_resources, own_modules
from .answering import Answering
from .argument_errors import names_arguments
from .feeding import fed
from .found_origin import code_of, shown_arguments, source_of
from .notifications import told
from .run import Run
from .search.on_cluster import Searching
from .secrets_left_out import words_without_secrets
from .serving import Serving
from .session import session
from .submitting import request_of, submit
from .training import Training
from .waiting import show_until_end, show_until_sent


class Cluster(Training, Serving, Searching, Answering):
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
