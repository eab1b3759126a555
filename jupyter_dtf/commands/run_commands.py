"""The commands that inspect runs: ``show``, ``compare``, ``export``, ``tensorboard`` and ``watch``."""

from __future__ import annotations

import argparse
import signal
import sys
from typing import Any

from ..client import terminal
from ..client.run import Run
from ..client.session import session
from ..client.tensorboard import open_with_runs
from ..errors import InvalidInput, NotFound
from ..schema.base import encode_json
from . import arguments as reading
from . import run_history as history
from .watch import watch as begin

_NEWEST = 20


def add_to(commands: Any) -> None:
    """Add the commands to the parser of the command line (the object that ``add_subparsers`` returns)."""
    show = commands.add_parser("show", help="show everything about a run: parameters, metrics, versions, code")
    show.add_argument("run", help="the run's id, part of its id, or its name")
    show.add_argument("--code", action="store_true", help="include the code that was submitted")
    show.add_argument("--json", action="store_true", help="print JSON")
    show.set_defaults(do=_show)

    compare = commands.add_parser("compare", help="compare runs side by side, showing only differences")
    compare.add_argument("runs", nargs="+", metavar="RUN", help="ids, parts of ids, or names of runs")
    compare.add_argument("--all", action="store_true", help="show equal values as well; a star marks differences")
    compare.set_defaults(do=_compare)

    export = commands.add_parser("export", help="export every point of a run: all metrics of all tasks")
    export.add_argument("run", help="the run's id, part of its id, or its name")
    export.add_argument(
        "--format", choices=("csv", "json", "parquet"), default="csv", help="the file format (default: csv)"
    )
    export.add_argument(
        "-o", "--output", default="", metavar="FILE", help="the file to write (default: standard output)"
    )
    export.set_defaults(do=_export)

    board = commands.add_parser("tensorboard", help="open TensorBoard with runs, past and active")
    board.add_argument(
        "runs", nargs="*", metavar="RUN", help="ids, parts of ids, or names (default: the newest and future runs)"
    )
    board.add_argument(
        "-n", type=int, default=_NEWEST, metavar="N", help=f"the number of newest runs (default: {_NEWEST})"
    )
    board.add_argument(
        "--logdir", default="", metavar="DIR", help="keep the event files in DIR (default: remove them at the end)"
    )
    board.set_defaults(do=_tensorboard)

    watch = commands.add_parser("watch", help="watch a run in the terminal until it has ended, with text plots")
    watch.add_argument("run", nargs="?", default="", help="the run's id, part of its id, or its name (default: newest)")
    watch.set_defaults(do=_watch)


def _show(arguments: argparse.Namespace) -> int:
    run = Run(reading.find_run(arguments.run, session().hub.runs()).id)
    if arguments.json:
        print(encode_json({"run": run.info, "code": run.code}).decode())
    else:
        terminal.say(history.description(run, with_code=arguments.code))
    return 0


def _compare(arguments: argparse.Namespace) -> int:
    known = session().hub.runs()
    found = [reading.find_run(text, known) for text in arguments.runs]
    terminal.say(history.comparison(found, everything=arguments.all))
    return 0


def _export(arguments: argparse.Namespace) -> int:
    run = Run(reading.find_run(arguments.run, session().hub.runs()).id)
    history.export(run, arguments.format, arguments.output)
    return 0


def _tensorboard(arguments: argparse.Namespace) -> int:
    if arguments.n < 1:
        raise InvalidInput(f"`-n` must be an integer >= 1, got {arguments.n}", field="n")
    hub = session().hub
    named = [Run(reading.find_run(text, hub.runs()).id) for text in arguments.runs]

    def runs() -> list[Run]:
        known = [info.id for info in hub.runs() if not info.marks.archived]
        return named or [Run(run_id) for run_id in known[: arguments.n]]

    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # TensorBoard ends with this process
    shown = open_with_runs(runs, arguments.logdir or None)
    try:
        terminal.say(f"TensorBoard at {shown.url}\nCtrl-C ends it. The address has no password, so do not share it")
        shown.wait()
    finally:
        shown.close()
    return 0


def _watch(arguments: argparse.Namespace) -> int:
    known = session().hub.runs()
    if not known:
        raise NotFound("There are no runs to watch")
    begin(Run((reading.find_run(arguments.run, known) if arguments.run else known[0]).id))
    return 0
