"""``jupyter dtf``: controls clusters and runs from a shell.

The exit status is 0 for success; 1 for a failure, with one line on standard error that states the reason; 2 for an
invalid command line; 130 after an interrupt.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any

from ._version import __version__
from .client import terminal
from .errors import DtfError, InvalidInput, NotFound
from .schema.api import ClusterState
from .schema.base import encode_json
from .schema.cluster import check_jobs
from .schema.restart import Restart
from .schema.trace import PROFILE_STEPS, check_steps

FAILED, USAGE, INTERRUPTED = 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # replace characters that the terminal lacks instead of failing
            stream.reconfigure(errors="backslashreplace")
    parser = _parser()
    try:
        arguments = parser.parse_args(argv)
        status: int = arguments.do(arguments)
        if sys.stdout is not None:  # None if standard output was closed before Python started
            sys.stdout.flush()
        return status
    except InvalidInput as error:
        return _say(parser, error, USAGE)
    except DtfError as error:
        return _say(parser, error, FAILED)
    except KeyboardInterrupt as error:
        if str(error):
            terminal.write(sys.stderr, f"{parser.prog}: {error}\n")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has closed it
        _to_nowhere()
        return FAILED
    except OSError as error:  # for example a full disk or a closed descriptor: show the system's own message
        return _say(parser, error, FAILED)


def _to_nowhere() -> None:
    """Redirect standard output to /dev/null, so that the flush at exit succeeds."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(parser: argparse.ArgumentParser, error: Exception, status: int) -> int:
    terminal.write(sys.stderr, f"{parser.prog}: error: {error}\n")
    return status


def _parser() -> argparse.ArgumentParser:
    from .commands import arguments as reading
    from .commands import forecast_commands, run_commands

    parser = argparse.ArgumentParser(prog="jupyter dtf", description="Distributed TensorFlow: clusters and runs.")
    parser.add_argument("--version", action="version", version=f"jupyter_dtf {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    start = commands.add_parser("start", help="start a cluster and print its name")
    reading.add_start_arguments(start)
    stay = start.add_mutually_exclusive_group()
    stay.add_argument(
        "--grace",
        type=float,
        metavar="SECONDS",
        help="end the cluster this long after its last client disconnects, but never during a run (default: keep it)",
    )
    stay.add_argument(
        "--foreground",
        action="store_true",
        help="stay in the foreground; Ctrl-C, or the end of this process, ends the cluster",
    )
    start.set_defaults(do=_start)

    list_ = commands.add_parser("list", help="list the clusters")
    list_.add_argument("--json", action="store_true", help="print JSON")
    list_.set_defaults(do=_list)

    scale = commands.add_parser("scale", help="change the number of tasks of each job for future runs")
    scale.add_argument("name", help="the cluster")
    scale.add_argument("jobs", metavar="JOB=N,...", help="the number of tasks of each job, such as worker=4,ps=1")
    scale.set_defaults(do=_scale)

    stop = commands.add_parser("stop", help="end clusters and their runs, and remove lost ones from the list")
    stop.add_argument("names", nargs="*", metavar="NAME", help="the clusters")
    stop.add_argument("--all", action="store_true", help="end every cluster")
    stop.set_defaults(do=_stop)

    doctor = commands.add_parser("doctor", help="check a cluster's hosts, or this machine, for problems")
    doctor.add_argument("cluster", nargs="?", default="", help="a running cluster (default: this machine)")
    doctor.add_argument("--network", action="store_true", help="measure the bandwidth between the cluster's hosts")
    doctor.add_argument("--clean", action="store_true", help="remove what crashed clusters have left behind")
    doctor.add_argument("--json", action="store_true", help="print JSON")
    doctor.set_defaults(do=_doctor)

    run = commands.add_parser("run", help="run a script once per task")
    run.add_argument(
        "--cluster", default="", metavar="NAME", help="run on this cluster (default: a new one on this machine)"
    )
    tasks = run.add_mutually_exclusive_group()
    tasks.add_argument("-n", type=int, metavar="N", help="the number of workers (default: 2, or the cluster's tasks)")
    tasks.add_argument(
        "--jobs", default="", metavar="JOB=N,...", help="the number of tasks of each job, such as worker=2,ps=1"
    )
    run.add_argument("--name", default="", help="the name of the run (default: the name of the script)")
    run.add_argument(
        "--trace-steps", nargs=2, type=int, metavar=("FIRST", "LAST"), help="trace the operations of these steps"
    )
    run.add_argument(
        "--restarts",
        type=int,
        metavar="N",
        help="restart all tasks up to N times when one dies or freezes (default: 0)",
    )
    run.add_argument("script", help="a Python program")
    run.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="the script's arguments")
    run.set_defaults(do=_run)

    runs = commands.add_parser("runs", help="list the runs, newest first")
    reading.add_runs_arguments(runs)
    runs.add_argument("--json", action="store_true", help="print JSON")
    runs.set_defaults(do=_runs)

    run_commands.add_to(commands)
    forecast_commands.add_to(commands)

    resume = commands.add_parser("resume", help="continue training from a checkpoint, as a new run")
    resume.add_argument("run", help="the run's id, part of its id, or its name")
    resume.add_argument(
        "--on", default="", metavar="CLUSTER", help="continue on this cluster (default: the run's previous cluster)"
    )
    resume.add_argument(
        "--step",
        type=int,
        metavar="N",
        help="continue from the checkpoint of this step (default: the newest checkpoint)",
    )
    resume.set_defaults(do=_resume)

    pause = commands.add_parser(
        "pause", help="pause a training run: write a checkpoint and end its tasks until it is continued"
    )
    pause.add_argument("run", help="the run's id, part of its id, or its name")
    pause.set_defaults(do=_pause)

    continue_ = commands.add_parser("continue", help="continue a paused training run")
    continue_.add_argument("run", help="the run's id, part of its id, or its name")
    continue_.set_defaults(do=_continue)

    profile = commands.add_parser("profile", help="trace the next steps of an active run, on all its tasks")
    profile.add_argument("run", help="the run's id, part of its id, or its name")
    profile.add_argument(
        "--steps", type=int, default=PROFILE_STEPS, metavar="N", help=f"the number of steps (default: {PROFILE_STEPS})"
    )
    profile.add_argument(
        "--timeout", type=float, default=60.0, metavar="S", help="wait at most S seconds for the trace (default: 60)"
    )
    profile.add_argument(
        "-o",
        "--output",
        default="",
        metavar="FILE",
        help="also save the trace in Chrome's trace format, which ui.perfetto.dev can open",
    )
    profile.set_defaults(do=_profile)

    logs = commands.add_parser("logs", help="print the output of a run's tasks")
    logs.add_argument("run", help="the run's id, part of its id, or its name")
    logs.add_argument("task", nargs="?", default="", help="one task, such as worker:1 (default: all tasks)")
    logs.add_argument("-f", "--follow", action="store_true", help="keep printing until the run has ended")
    logs.set_defaults(do=_logs)

    server = commands.add_parser("server", help="run a plain TensorFlow server in the foreground")
    server.add_argument(
        "--cluster_spec",
        required=True,
        metavar="SPEC",
        help="the endpoints of each job, as worker|host:port;host:port,ps|host:port; or local",
    )
    server.add_argument("--job_name", default="", metavar="JOB", help="the job of this server")
    server.add_argument(
        "--task_index", "--task_id", type=int, metavar="N", help="the index of this server in the job (default: 0)"
    )
    server.add_argument(
        "--gpu_memory_fraction", type=float, default=1.0, help="the fraction of each GPU's memory to use (default: 1)"
    )
    server.add_argument(
        "--clients",
        default="",
        metavar="HOSTS",
        help="machines that may connect in addition to those in SPEC, as HOST,HOST",
    )
    server.add_argument("--verbose", action="store_true", help="show TensorFlow's log and the server's definition")
    server.set_defaults(do=_server)

    demo = commands.add_parser("demo", help="train a small network on two workers on this machine")
    demo.add_argument("--workers", type=int, default=2, help="the number of workers (default: 2)")
    demo.add_argument("--epochs", type=int, default=10, help="the number of epochs (default: 10)")
    demo.set_defaults(do=_demo)
    return parser


# -- clusters ------------------------------------------------------------------------------------------------------


def _start(arguments: argparse.Namespace) -> int:
    from .client.session import session
    from .commands import arguments as reading

    grace_s = 0.0 if arguments.foreground else arguments.grace
    request = reading.cluster_request(arguments, keep=grace_s is None, grace_s=grace_s)
    view = session()
    # Installed before the name is printed, because the reader of the name may end this process immediately.
    with _terminated() if arguments.foreground else contextlib.nullcontext():
        name = view.start_cluster(request)
        try:
            view.call(lambda fleet: fleet.ready(name))
            print(name, flush=True)
            if arguments.foreground:
                view.call(lambda fleet: fleet.gone(name))
        except KeyboardInterrupt:
            _close(name)
            return 0 if arguments.foreground else INTERRUPTED
    return 0


@contextlib.contextmanager
def _terminated() -> Any:
    """Make SIGTERM and SIGHUP raise KeyboardInterrupt within the context, as Ctrl-C does."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _close(name: str) -> None:
    from .client.session import session

    with contextlib.suppress(NotFound):
        if word := session().call(lambda fleet: fleet.close_cluster(name)):
            print(word, file=sys.stderr)


def _list(arguments: argparse.Namespace) -> int:
    from .client.session import session
    from .commands import arguments as reading

    infos = session().do(lambda fleet: fleet.clusters())
    if arguments.json:
        print(encode_json(infos).decode())
    else:
        print(reading.clusters_table(infos, session().hub.runs()))
    return 0


def _scale(arguments: argparse.Namespace) -> int:
    from .client import wording
    from .client.lookup import connect
    from .commands import arguments as reading

    jobs = reading.parse_jobs(arguments.jobs)
    print(f"{arguments.name}: {wording.jobs(connect(arguments.name).scale(jobs).jobs)}")
    return 0


def _stop(arguments: argparse.Namespace) -> int:
    from .client.session import session

    if bool(arguments.names) == arguments.all:
        raise InvalidInput("`stop` must be given either the names of clusters or --all")
    states = {info.name: info.state for info in session().do(lambda fleet: fleet.clusters())}
    known = list(states)
    missing = [name for name in arguments.names if name not in known]
    for name in known if arguments.all else arguments.names:
        if name in known:
            _close(name)
            lost = states[name] is ClusterState.LOST
            print(f"The cluster {name} {'was lost and has been removed' if lost else 'has ended'}.", flush=True)
    if missing:
        raise NotFound(f"There is no cluster named {', '.join(missing)}")
    return 0


def _doctor(arguments: argparse.Namespace) -> int:
    from .commands import doctor

    name = arguments.cluster
    if arguments.network and not name:
        raise InvalidInput("--network requires the name of a cluster, whose hosts it measures", field="cluster")
    if name:
        from .client.session import session

        view = session()
        view.call(lambda fleet: fleet.ready(name))
        found = view.call(lambda fleet: fleet.checkup(name, network=arguments.network, clean=arguments.clean))
    else:
        found = doctor.of_this_machine(clean=arguments.clean)
    print(encode_json(found).decode() if arguments.json else doctor.in_words(found, doctor.width_of_terminal()))
    return 0 if found.is_well else FAILED


# -- runs ----------------------------------------------------------------------------------------------------------


def _runs(arguments: argparse.Namespace) -> int:
    from .client.session import session
    from .commands import run_history as history

    infos, text = history.listed(session().hub.runs(), arguments)
    print(encode_json(infos).decode() if arguments.json else text)
    return 0


def _resume(arguments: argparse.Namespace) -> int:
    from .client.session import session
    from .commands import arguments as reading

    view = session()
    info = reading.find_run(arguments.run, view.hub.runs())
    print(view.call(lambda fleet: fleet.resume_run(info.id, arguments.on, arguments.step)).id)
    return 0


def _pause(arguments: argparse.Namespace) -> int:
    from .client.session import session
    from .commands import arguments as reading

    view = session()
    info = reading.find_run(arguments.run, view.hub.runs())
    view.call(lambda fleet: fleet.pause_run(info.id))
    return 0


def _profile(arguments: argparse.Namespace) -> int:
    from .client.run import Run
    from .client.session import session
    from .commands import arguments as reading

    run = Run(reading.find_run(arguments.run, session().hub.runs()).id)
    print(run.profile(arguments.steps, timeout_s=arguments.timeout))
    if arguments.output:
        run.timeline().save(arguments.output)
    return 0


def _continue(arguments: argparse.Namespace) -> int:
    from .client.session import session
    from .commands import arguments as reading

    view = session()
    info = reading.find_run(arguments.run, view.hub.runs())
    view.call(lambda fleet: fleet.continue_run(info.id))
    return 0


def _logs(arguments: argparse.Namespace) -> int:
    from .client.run_words import check_task
    from .client.session import session
    from .client.task_output import LogLines
    from .commands import arguments as reading

    info = reading.find_run(arguments.run, session().hub.runs())
    task = check_task(arguments.task, info) if arguments.task else ""
    lines = LogLines(session().hub, info.id, task)
    for line in lines.follow() if arguments.follow else lines.new():
        print(line, flush=arguments.follow)
    return 0


def _run(arguments: argparse.Namespace) -> int:
    from .client import script_run as scripts
    from .client.cluster import Cluster
    from .client.lookup import connect
    from .commands import arguments as reading

    given = arguments.arguments[1:] if arguments.arguments[:1] == ["--"] else arguments.arguments
    scripts.read(arguments.script, given)  # report a faulty script before starting a cluster
    check_steps(arguments.trace_steps)
    restart = None if arguments.restarts is None else Restart(max_restarts=arguments.restarts)
    jobs: dict[str, int] = {}
    if arguments.jobs:
        jobs = reading.parse_jobs(arguments.jobs)
    elif arguments.n is not None:
        jobs = check_jobs({"worker": arguments.n})
    with (
        _terminated(),
        contextlib.nullcontext(connect(arguments.cluster)) if arguments.cluster else Cluster(jobs or None) as cluster,
    ):
        run = cluster.run_script(
            arguments.script,
            given,
            name=arguments.name,
            jobs=jobs,
            trace_steps=arguments.trace_steps,
            restart=restart,
            wait=False,
        )
        scripts.run_in_foreground(run)
    return 0


def _server(arguments: argparse.Namespace) -> int:
    from .commands.foreground_server import serve

    with _terminated(), contextlib.suppress(KeyboardInterrupt):
        serve(
            arguments.cluster_spec,
            arguments.job_name,
            arguments.task_index,
            gpu_memory_fraction=arguments.gpu_memory_fraction,
            verbose=arguments.verbose,
            clients=[host for host in arguments.clients.split(",") if host],
        )
    return 0


def _demo(arguments: argparse.Namespace) -> int:
    from .commands.demo import demo

    demo(workers=arguments.workers, epochs=arguments.epochs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
