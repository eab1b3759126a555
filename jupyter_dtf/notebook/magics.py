"""``%dtf`` and ``%%dtf``: clusters and runs from a notebook, in few words."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from keyword import iskeyword
from typing import Any, NoReturn

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class

from ..backend.kinds import registry
from ..client import surroundings
from ..client.cluster import Cluster
from ..client.fit_run import held
from ..client.run import Results, Run
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
"""The name that this notebook's cluster gets in its cells."""


class _HelpShown(Exception):
    """``--help`` has been answered."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise _HelpShown


def register(shell: Any) -> None:
    """Give a shell the magics, and completion of their words."""
    magics = DtfMagics(shell)
    shell.register_magics(magics)
    for key in ("%dtf", "%%dtf"):
        shell.set_hook("complete_command", magics.complete, str_key=key)


@magics_class
class DtfMagics(Magics):
    """Clusters and runs. What names no cluster means this notebook's (``dtf.cluster()``)."""

    shell: Any

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self._line_parser, self._commands = _line_parser(self)
        self._cell_parser, self._cell_commands = _cell_parser()

    @line_cell_magic
    def dtf(self, line: str, cell: str | None = None) -> Any:
        """Clusters and runs: ``%dtf --help``, ``%%dtf run --help``."""
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
        return self._fit_cell(cluster, options, cell)  # what goes wrong in there has the cell's own traceback

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
        job, _, index = reading.check_task(parsed.task, info).partition(":") if parsed.task else ("", "", 0)
        print(Run(info.id).logs(job or None, int(index)) or "It has printed nothing.")

    def show(self, parsed: argparse.Namespace) -> None:
        Run(_find_run(parsed.run).id).show()

    # -- %%dtf --------------------------------------------------------------------------------------------------

    def _run_cell(self, parsed: argparse.Namespace, source: str) -> Any:
        cluster = self._cluster(parsed.cluster).wait_ready()
        if parsed.out and (not parsed.out.isidentifier() or iskeyword(parsed.out)):
            raise InvalidInput(f"--out is the name of a variable. Received: {parsed.out!r}", field="out")
        jobs = _chosen_jobs(cluster, parsed.job)
        tasks = _chosen_tasks(jobs, parsed.task)
        cell = cells.prepare(source, self.shell.user_ns, f"In [{self.shell.execution_count}]", tasks)
        run = cluster.run(cells.run, cell, name=parsed.name, jobs=jobs, wait=False)
        if not parsed.stream:
            wait_in_foreground(run, say)
        with surroundings.here().output_shown(run):  # at its end all there is, however soon that comes
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
        """Words that may come next after ``%dtf`` or ``%%dtf``: commands, options, names of clusters, jobs and runs."""
        line = event.line
        commands = self._cell_commands if line.lstrip().startswith("%%") else self._commands
        before = line.split()
        word = "" if line.endswith(" ") else before.pop()  # the word that is being completed
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
        """What there is of a kind of things: clusters, runs, jobs of this notebook's cluster, kinds of cluster."""
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

    # -- inside -------------------------------------------------------------------------------------------------

    def _use(self, cluster: Cluster) -> Cluster:
        self.shell.push({VARIABLE: cluster})
        return cluster

    def _cluster(self, name: str) -> Cluster:
        """The cluster of that name, or this notebook's; without one, what its variable ``cluster`` holds."""
        if name:
            return Cluster.connect(name)
        cluster = current() or self.shell.user_ns.get(VARIABLE)
        if not isinstance(cluster, Cluster):
            raise UsageError("This notebook has no cluster: %dtf start, or %dtf use NAME")
        return cluster


def _fit_options(parsed: argparse.Namespace) -> dict[str, Any]:
    """What ``%%dtf fit`` has on its line, as ``cluster.fit`` takes it. Raises InvalidInput."""
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
    """The jobs whose tasks take part. Raises NotFound."""
    jobs = cluster.jobs
    if job and job not in jobs:
        raise NotFound(f"The jobs of {cluster.name} are {', '.join(jobs)}. Received: {job!r}")
    return {job: jobs[job]} if job else jobs


def _chosen_tasks(jobs: Mapping[str, int], indices: list[int]) -> list[str]:
    """The names of the tasks with these indices; empty when all are meant. Raises InvalidInput, NotFound."""
    if not indices:
        return []
    if len(jobs) > 1:
        raise InvalidInput(f"--task needs --job where there are several. Received: jobs {', '.join(jobs)}")
    ((job, count),) = jobs.items()
    for index in indices:
        if not 0 <= index < count:
            raise NotFound(f"The tasks of the job {job} are 0 to {count - 1}. Received: {index}")
    return [f"{job}:{index}" for index in indices]


# -- parsers -------------------------------------------------------------------------------------------------------


def _line_parser(magics: DtfMagics) -> tuple[_Parser, dict[str, argparse.ArgumentParser]]:
    """And its commands, each with what its first word ``completes``: a ``cluster``, a ``run``, ``runs`` or nothing."""
    parser = _Parser(prog="%dtf", description="Clusters and runs of distributed TensorFlow.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    start = commands.add_parser("start", help="start a cluster for this notebook")
    reading.add_start_arguments(start)
    start.add_argument("--keep", action="store_true", help="let it stay when this kernel ends")
    start.set_defaults(do=magics.start)

    use = commands.add_parser("use", help="make a cluster that there is this notebook's")
    use.add_argument("name", help="the cluster")
    use.set_defaults(do=magics.use, completes="cluster")

    clusters = commands.add_parser("clusters", help="list the clusters")
    clusters.set_defaults(do=magics.clusters)

    stop = commands.add_parser("stop", help="end a cluster and its runs")
    stop.add_argument("name", nargs="?", default="", help="without one, this notebook's")
    stop.set_defaults(do=magics.stop, completes="cluster")

    scale = commands.add_parser("scale", help="new numbers of tasks, for the runs to come")
    scale.add_argument("name", metavar="[NAME] JOB=N,...", help="without a name, this notebook's")
    scale.add_argument("jobs", nargs="?", default="", help=argparse.SUPPRESS)
    scale.set_defaults(do=magics.scale, completes="cluster")

    runs = commands.add_parser("runs", help="list the runs, newest first")
    reading.add_runs_arguments(runs)
    runs.set_defaults(do=magics.runs)

    compare = commands.add_parser("compare", help="runs beside each other, with what differs between them")
    compare.add_argument("runs", nargs="+", metavar="RUN", help="ids, parts of them, or names")
    compare.add_argument("--all", action="store_true", help="what is the same as well; a star is at what differs")
    compare.set_defaults(do=magics.compare, completes="runs")

    resume = commands.add_parser("resume", help="go on with a training from a checkpoint, as a new run")
    resume.add_argument("run", help="its id, a part of it, or its name")
    resume.add_argument("--on", default="", metavar="CLUSTER", help="on this cluster (default: the one it was on)")
    resume.add_argument("--step", type=int, metavar="N", help="from the checkpoint of this step (default: the newest)")
    resume.set_defaults(do=magics.resume, completes="run")

    pause = commands.add_parser("pause", help="end a training's tasks with a checkpoint, until it is continued")
    pause.add_argument("run", help="its id, a part of it, or its name")
    pause.set_defaults(do=magics.pause, completes="run")

    continue_ = commands.add_parser("continue", help="have a paused training go on")
    continue_.add_argument("run", help="its id, a part of it, or its name")
    continue_.set_defaults(do=magics.continue_, completes="run")

    logs = commands.add_parser("logs", help="print what a run's tasks have printed")
    logs.add_argument("run", help="its id, a part of it, or its name")
    logs.add_argument("task", nargs="?", default="", help="one task, such as worker:1")
    logs.set_defaults(do=magics.logs, completes="run")

    show = commands.add_parser("show", help="show a run's dashboard")
    show.add_argument("run", help="its id, a part of it, or its name")
    show.set_defaults(do=magics.show, completes="run")
    return parser, dict(commands.choices)


def _cell_parser() -> tuple[_Parser, dict[str, argparse.ArgumentParser]]:
    parser = _Parser(prog="%%dtf", description="Run this cell on the tasks of a cluster, or train there what it fits.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, dest="command")
    run = commands.add_parser(
        "run",
        help="run the cell on the tasks",
        description="Runs the cell on every task, or those chosen, each in a process of its own. Names of the notebook "
        "that the cell uses travel with it; ctx is the task's context. Gives the last expression's value of each task.",
    )
    run.add_argument("--job", default="", help="only the tasks of this job")
    run.add_argument("--task", type=int, action="append", default=[], metavar="INDEX", help="only this task of the job")
    run.add_argument("--cluster", default="", metavar="NAME", help="another cluster than this notebook's")
    run.add_argument("--name", default="cell", help="what the run is called")
    run.add_argument("--out", default="", metavar="NAME", help="a variable of the notebook that gets the cell's value")
    run.add_argument(
        "--stream",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="show what tasks print as it comes, rather than when they have ended (default: --stream)",
    )

    fit = commands.add_parser(
        "fit",
        help="run the cell here, and its model.fit on the cluster",
        description="Runs the cell in the notebook; what model.fit of any Keras model in it trains is trained on the "
        "cluster. The model has the trained weights afterwards, and model.fit returns its History. Each fit is a run.",
    )
    fit.add_argument("--strategy", default="allreduce", help="allreduce (default), ps or mirrored")
    fit.add_argument("--jobs", default="", metavar="JOB=N,...", help="on so many tasks (default: all of the cluster)")
    fit.add_argument("--scale-lr", action="store_true", help="multiply the learning rate by the number of tasks")
    fit.add_argument("--warmup-epochs", type=float, metavar="N", help="in which it rises to that (default: 5)")
    fit.add_argument("--checkpoint", action=argparse.BooleanOptionalAction, help="after each epoch (default: yes)")
    fit.add_argument("--check", action=argparse.BooleanOptionalAction, default=True, help="compare with one process")
    fit.add_argument("--cluster", default="", metavar="NAME", help="another cluster than this notebook's")
    fit.add_argument("--name", default="", help="what the runs are called (default: as the model)")
    return parser, dict(commands.choices)
