"""The ``%dtf`` and ``%%dtf`` magics for clusters and runs."""

from __future__ import annotations

import argparse
import shlex
import traceback
from collections.abc import Mapping
from keyword import iskeyword
from typing import Any, NoReturn

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class

from ..backend.kinds import registry
from ..client import display_hooks
from ..client.cluster import Cluster
from ..client.fit_run import held
from ..client.run import Run
from ..client.run_results import Results
from ..client.session import session
from ..client.waiting import say, wait_in_foreground
from ..commands import arguments as reading
from ..commands import run_history as history
from ..errors import DtfError, InvalidInput, NotFound, RunError
from ..schema.run import RunInfo
from . import cell as cells
from . import fit_cell
from .this_notebook import current, use

VARIABLE = "cluster"
"""The name of the variable that holds this notebook's cluster."""


class _HelpShown(Exception):
    """Raised to end the command after ``--help`` has been printed."""


class NotPython(UsageError):
    """A cell has a syntax error. The error is shown as in Python, without the frames that led to it."""

    def __init__(self, error: SyntaxError) -> None:
        self._lines = "".join(traceback.format_exception_only(error)).splitlines()
        if (error.text or "").lstrip().startswith(("!", "%")):
            self._lines.append("The tasks run plain Python, without the magics and shell commands of IPython.")
        super().__init__("\n".join(self._lines))

    def _render_traceback_(self) -> list[str]:
        return self._lines


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise _HelpShown


def register(shell: Any) -> None:
    """Register the magics and their completion with a shell."""
    magics = DtfMagics(shell)
    shell.register_magics(magics)
    for key in ("%dtf", "%%dtf"):
        shell.set_hook("complete_command", magics.complete, str_key=key)


@magics_class
class DtfMagics(Magics):
    """Magics for clusters and runs. They use this notebook's cluster (``dtf.cluster()``) unless another is named."""

    shell: Any

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self._line_parser, self._commands = _line_parser(self)
        self._cell_parser, self._cell_commands = _cell_parser()

    @line_cell_magic
    def dtf(self, line: str, cell: str | None = None) -> Any:
        """Manage clusters and runs. See ``%dtf --help`` and ``%%dtf run --help``."""
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise UsageError(f"%dtf: {error}") from None
        try:
            if cell is None:
                parsed = self._line_parser.parse_args(words or ["--help"])
                return parsed.do(parsed)
            parsed = self._cell_parser.parse_args(words)
            if parsed.command == "run":
                return self._run_cell(parsed, cell)
            cluster, options = self._cluster(parsed.cluster).wait_ready(), _fit_options(parsed)
        except _HelpShown:
            return None
        except RunError:
            raise
        except DtfError as error:
            raise UsageError(str(error)) from None
        return self._fit_cell(cluster, options, cell)  # errors in the cell keep their own traceback

    # -- %dtf ---------------------------------------------------------------------------------------------------

    def start(self, parsed: argparse.Namespace) -> Cluster:
        request = reading.cluster_request(parsed, keep=parsed.keep)
        return self._use(use(Cluster.start(request), owned=not parsed.keep))

    def use(self, parsed: argparse.Namespace) -> Cluster:
        return self._use(use(Cluster.connect(parsed.name)))

    def clusters(self, parsed: argparse.Namespace) -> None:
        infos = session().do(lambda fleet: fleet.clusters())
        print(reading.clusters_table(infos, session().hub.runs()))

    def stop(self, parsed: argparse.Namespace) -> None:
        cluster = self._cluster(parsed.name)
        cluster.close()
        print(f"The cluster {cluster.name} has ended.")

    def scale(self, parsed: argparse.Namespace) -> Cluster:
        name = parsed.name if parsed.jobs else ""
        jobs = reading.parse_jobs(parsed.jobs or parsed.name)
        return self._cluster(name).scale(jobs)

    def runs(self, parsed: argparse.Namespace) -> None:
        print(history.listed(session().hub.runs(), parsed)[1])

    def compare(self, parsed: argparse.Namespace) -> None:
        print(history.comparison([_find_run(text) for text in parsed.runs], everything=parsed.all))

    def resume(self, parsed: argparse.Namespace) -> Run:
        return held(_find_run(parsed.run)).resume(parsed.step, cluster=parsed.on or None, wait=False)

    def pause(self, parsed: argparse.Namespace) -> None:
        Run(_find_run(parsed.run).id).pause()

    def continue_(self, parsed: argparse.Namespace) -> None:
        Run(_find_run(parsed.run).id).continue_()

    def logs(self, parsed: argparse.Namespace) -> None:
        info = _find_run(parsed.run)
        print(Run(info.id).logs(parsed.task or None) or "There is no output.")

    def show(self, parsed: argparse.Namespace) -> None:
        Run(_find_run(parsed.run).id).show()

    # -- %%dtf --------------------------------------------------------------------------------------------------

    def _run_cell(self, parsed: argparse.Namespace, source: str) -> Any:
        cluster = self._cluster(parsed.cluster).wait_ready()
        if parsed.out and (not parsed.out.isidentifier() or iskeyword(parsed.out)):
            raise InvalidInput(f"--out must be the name of a variable, got {parsed.out!r}", field="out")
        jobs = _chosen_jobs(cluster, parsed.job)
        tasks = _chosen_tasks(jobs, parsed.task)
        try:
            cell = cells.prepare(source, self.shell.user_ns, f"In [{self.shell.execution_count}]", tasks)
        except SyntaxError as error:
            raise NotPython(error) from None
        run = cluster.run(cells.run, cell, name=parsed.name, jobs=jobs, wait=False)
        if not parsed.stream:
            wait_in_foreground(run, say)
        with display_hooks.here().output_shown(run):  # leaving the block shows the remaining output
            if parsed.stream:
                wait_in_foreground(run, say)
        values = {task: value for task, value in run.result().items() if not tasks or task in tasks}
        has_any = any(value is not None for value in values.values())
        given = next(iter(values.values())) if len(values) == 1 else Results(values) if has_any else None
        if not parsed.out:
            return given
        self.shell.push({parsed.out: given})
        return None

    def _fit_cell(self, cluster: Cluster, options: dict[str, Any], source: str) -> Any:
        runs: list[Run] = []

        def train(model: Any, **arguments: Any) -> Any:
            runs.append(cluster.fit(model, **arguments, **options))
            return fit_cell.history_of(model, arguments.get("epochs", 1), arguments.get("steps_per_epoch"))

        with fit_cell.fits_by(train):
            value = fit_cell.execute(self.shell, source)
        if not runs:
            say("No model.fit was called in this cell, so nothing was trained on the cluster.")
        return value

    def complete(self, _shell: Any, event: Any) -> list[str]:
        """Complete words after ``%dtf`` or ``%%dtf``: commands, options, and names of clusters, jobs and runs."""
        line = event.line
        commands = self._cell_commands if line.lstrip().startswith("%%") else self._commands
        before = line.split()
        word = "" if line.endswith(" ") else before.pop()  # the word to complete
        if len(before) <= 1:
            return sorted(commands)
        if (command := commands.get(before[1])) is None:
            return []
        options = command._option_string_actions
        if word.startswith("-"):
            return sorted(option for option in options if option not in before and option.startswith("--"))
        if (option := options.get(before[-1])) is not None and option.nargs != 0:
            return self._named(option.dest)
        is_first = len(before) == 2 or command.get_default("completes") == "runs"
        return self._named(command.get_default("completes") or "") if is_first else []

    def _named(self, what: str) -> list[str]:
        """Return the names of one kind: clusters, runs, jobs of this notebook's cluster, or kinds of cluster."""
        match what:
            case "cluster" | "on":
                return [info.name for info in session().do(lambda fleet: fleet.clusters())]
            case "run" | "runs":
                return [info.id for info in session().hub.runs()[:20]]
            case "job":
                cluster = current() or self.shell.user_ns.get(VARIABLE)
                return sorted(cluster.jobs) if isinstance(cluster, Cluster) else []
            case "kind":
                return sorted(registry.kinds())
        return []

    # -- internal -----------------------------------------------------------------------------------------------

    def _use(self, cluster: Cluster) -> Cluster:
        self.shell.push({VARIABLE: cluster})
        return cluster

    def _cluster(self, name: str) -> Cluster:
        """Return the cluster with this name; without a name, this notebook's cluster.

        If the notebook has none, return the cluster in the variable ``cluster``.
        """
        if name:
            return Cluster.connect(name)
        cluster = current() or self.shell.user_ns.get(VARIABLE)
        if not isinstance(cluster, Cluster):
            raise UsageError("This notebook has no cluster; use %dtf start or %dtf use NAME")
        return cluster


def _fit_options(parsed: argparse.Namespace) -> dict[str, Any]:
    """Return the options on the line of ``%%dtf fit``, as arguments of ``cluster.fit``. Raises InvalidInput."""
    options: dict[str, Any] = {"strategy": parsed.strategy, "scale_lr": parsed.scale_lr, "check": parsed.check}
    if parsed.warmup_epochs is not None:
        options["warmup_epochs"] = parsed.warmup_epochs
    if parsed.jobs:
        options["jobs"] = reading.parse_jobs(parsed.jobs)
    if parsed.checkpoint is not None:
        options["checkpoint"] = parsed.checkpoint
    return options | ({"name": parsed.name} if parsed.name else {})


def _find_run(text: str) -> RunInfo:
    return reading.find_run(text, session().hub.runs())


def _chosen_jobs(cluster: Cluster, job: str) -> dict[str, int]:
    """Return the number of tasks of each job that takes part: ``job``, or all jobs. Raises NotFound."""
    jobs = cluster.jobs
    if job and job not in jobs:
        raise NotFound(f"--job must be one of {', '.join(jobs)}, the jobs of {cluster.name}, got {job!r}")
    return {job: jobs[job]} if job else jobs


def _chosen_tasks(jobs: Mapping[str, int], indices: list[int]) -> list[str]:
    """Return the names of the tasks with these indices; an empty list, which selects all tasks, if there are none.

    Raises InvalidInput and NotFound.
    """
    if not indices:
        return []
    if len(jobs) > 1:
        raise InvalidInput(f"--task must be given with --job if there are several jobs, got {', '.join(jobs)}")
    ((job, count),) = jobs.items()
    for index in indices:
        if not 0 <= index < count:
            raise NotFound(f"--task must be from 0 to {count - 1} for the job {job}, got {index}")
    return [f"{job}:{index}" for index in indices]


# -- parsers -------------------------------------------------------------------------------------------------------


def _line_parser(magics: DtfMagics) -> tuple[_Parser, dict[str, argparse.ArgumentParser]]:
    """Return the parser, and the parsers of its commands, keyed by name.

    Each command's default ``completes`` states whether its arguments are clusters or runs.
    """
    parser = _Parser(prog="%dtf", description="Manage clusters and runs of distributed TensorFlow.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    start = commands.add_parser("start", help="start a cluster for this notebook")
    reading.add_start_arguments(start)
    start.add_argument("--keep", action="store_true", help="keep it running when this kernel ends")
    start.set_defaults(do=magics.start)

    use = commands.add_parser("use", help="use an existing cluster in this notebook")
    use.add_argument("name", help="the cluster")
    use.set_defaults(do=magics.use, completes="cluster")

    clusters = commands.add_parser("clusters", help="list the clusters")
    clusters.set_defaults(do=magics.clusters)

    stop = commands.add_parser("stop", help="end a cluster and its runs")
    stop.add_argument("name", nargs="?", default="", help="the cluster (default: this notebook's)")
    stop.set_defaults(do=magics.stop, completes="cluster")

    scale = commands.add_parser("scale", help="change the numbers of tasks for future runs")
    scale.add_argument("name", metavar="[NAME] JOB=N,...", help="the cluster (default: this notebook's) and its tasks")
    scale.add_argument("jobs", nargs="?", default="", help=argparse.SUPPRESS)
    scale.set_defaults(do=magics.scale, completes="cluster")

    runs = commands.add_parser("runs", help="list the runs, newest first")
    reading.add_runs_arguments(runs)
    runs.set_defaults(do=magics.runs)

    compare = commands.add_parser("compare", help="compare runs side by side, showing only differences")
    compare.add_argument(
        "runs", nargs="+", metavar="RUN", help="the ids of the runs, parts of their ids, or their names"
    )
    compare.add_argument("--all", action="store_true", help="also show equal values; a star marks differences")
    compare.set_defaults(do=magics.compare, completes="runs")

    resume = commands.add_parser("resume", help="continue a training run from a checkpoint, as a new run")
    resume.add_argument("run", help="the run's id, part of its id, or its name")
    resume.add_argument(
        "--on", default="", metavar="CLUSTER", help="continue on this cluster (default: the run's own cluster)"
    )
    resume.add_argument(
        "--step", type=int, metavar="N", help="continue from the checkpoint of this step (default: the newest)"
    )
    resume.set_defaults(do=magics.resume, completes="run")

    pause = commands.add_parser(
        "pause", help="pause a training run: write a checkpoint and end its tasks until it is continued"
    )
    pause.add_argument("run", help="the run's id, part of its id, or its name")
    pause.set_defaults(do=magics.pause, completes="run")

    continue_ = commands.add_parser("continue", help="continue a paused training run")
    continue_.add_argument("run", help="the run's id, part of its id, or its name")
    continue_.set_defaults(do=magics.continue_, completes="run")

    logs = commands.add_parser("logs", help="print the output of a run's tasks")
    logs.add_argument("run", help="the run's id, part of its id, or its name")
    logs.add_argument("task", nargs="?", default="", help="one task, such as worker:1 (default: all tasks)")
    logs.set_defaults(do=magics.logs, completes="run")

    show = commands.add_parser("show", help="show a run's dashboard")
    show.add_argument("run", help="the run's id, part of its id, or its name")
    show.set_defaults(do=magics.show, completes="run")
    return parser, dict(commands.choices)


def _cell_parser() -> tuple[_Parser, dict[str, argparse.ArgumentParser]]:
    parser = _Parser(prog="%%dtf", description="Run this cell on the tasks of a cluster, or train its models there.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, dest="command")
    run = commands.add_parser(
        "run",
        help="run the cell on the tasks",
        description="Runs the cell on all tasks, or only on the chosen ones, each in its own process. The notebook's "
        "variables that the cell uses are sent along; ctx is the task's context. Returns the value of the last "
        "expression in each task.",
    )
    run.add_argument("--job", default="", help="run only on the tasks of this job")
    run.add_argument(
        "--task",
        type=int,
        action="append",
        default=[],
        metavar="INDEX",
        help="run only on this task of the job; may be repeated",
    )
    run.add_argument("--cluster", default="", metavar="NAME", help="the cluster (default: this notebook's)")
    run.add_argument("--name", default="cell", help="the name of the run")
    run.add_argument("--out", default="", metavar="NAME", help="assign the result to this variable of the notebook")
    run.add_argument(
        "--stream",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="show output as it is printed, rather than when the tasks have ended (default: --stream)",
    )

    fit = commands.add_parser(
        "fit",
        help="run the cell here, but train on the cluster when it calls model.fit",
        description="Runs the cell in the notebook, but trains on the cluster whenever it calls model.fit of a Keras "
        "model. Afterwards the model has the trained weights, and model.fit returns its History. Each call is a run.",
    )
    fit.add_argument("--strategy", default="allreduce", help="allreduce (default), ps or mirrored")
    fit.add_argument("--jobs", default="", metavar="JOB=N,...", help="the tasks (default: all tasks of the cluster)")
    fit.add_argument("--scale-lr", action="store_true", help="multiply the learning rate by the number of tasks")
    fit.add_argument(
        "--warmup-epochs",
        type=float,
        metavar="N",
        help="epochs over which the learning rate rises to its scaled value (default: 5)",
    )
    fit.add_argument(
        "--checkpoint", action=argparse.BooleanOptionalAction, help="write a checkpoint after each epoch (default: yes)"
    )
    fit.add_argument(
        "--check",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="compare the first step with the same step in a single process",
    )
    fit.add_argument("--cluster", default="", metavar="NAME", help="the cluster (default: this notebook's)")
    fit.add_argument("--name", default="", help="the name of the runs (default: the model's name)")
    return parser, dict(commands.choices)
