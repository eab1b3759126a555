"""The commands for forecasts: ``predict`` and ``plan``."""

from __future__ import annotations

import argparse
from typing import Any

from ..client import terminal
from ..errors import InvalidInput
from ..schema.base import encode_json
from ..schema.design import Design
from ..schema.forecast import ALGORITHMS, COMPRESSIONS, PRECISIONS, STRATEGIES, TRANSPORTS, ForecastSettings
from ..schema.scale_plan import ScaleTarget


def add_to(commands: Any) -> None:
    """Add the commands to the parser of the command line (the object that ``add_subparsers`` returns)."""
    predict = commands.add_parser(
        "predict", help="forecast how a design would scale: examples per second by number of tasks"
    )
    predict.add_argument(
        "--strategy", choices=STRATEGIES, default="allreduce", help="the strategy to forecast (default: allreduce)"
    )
    predict.add_argument("--tasks", default="", metavar="N,N,...", help="numbers of tasks (default: 1,2,4,...,512)")
    predict.add_argument(
        "--threshold",
        type=float,
        default=0.5,
        help="additional tasks are worthwhile if each adds this fraction of the throughput of one task (default: 0.5)",
    )
    _add_shared(predict)
    predict.set_defaults(do=_predict)

    plan = commands.add_parser("plan", help="find the fewest machines that reach a target, as a design")
    plan.add_argument("--examples-per-second", type=float, default=0.0, metavar="N", help="the target throughput")
    plan.add_argument("--hours", type=float, default=0.0, help="alternatively, the target time for all examples")
    plan.add_argument(
        "--device-hours", type=float, default=0.0, metavar="HOURS", help="alternatively, the budget for all examples"
    )
    plan.add_argument("--examples", type=float, default=0.0, metavar="N", help="the number of examples of all epochs")
    plan.add_argument("--strategy", choices=STRATEGIES, help="the strategy (default: the best of several)")
    plan.add_argument("-o", "--output", default="", metavar="FILE", help="write the design that reaches the target")
    _add_shared(plan)
    plan.set_defaults(do=_plan)


def _add_shared(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("design", help="a .dtf file with a model")
    parser.add_argument("--batch-size", type=int, default=0, metavar="N", help="examples per step over all tasks")
    parser.add_argument(
        "--per-device", type=int, default=0, metavar="N", help="alternatively, examples per step of each task"
    )
    parser.add_argument(
        "--device", default="", help="A100, H100, V100, P100, K80, H200 or CPU (default: as calibrated)"
    )
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32", help="the precision (default: fp32)")
    parser.add_argument(
        "--utilization",
        type=float,
        default=0.0,
        metavar="PART",
        help="the fraction of the device's peak performance that a step reaches, 0 to 1",
    )
    parser.add_argument(
        "--network", default="", help="the network between machines: 1gbit, 10gbit, 25gbit, infiniband-hdr, ..."
    )
    parser.add_argument(
        "--cluster", default="", metavar="NAME", help="alternatively, measure the network of this cluster's hosts"
    )
    parser.add_argument(
        "--transport", choices=TRANSPORTS, default="tcp", help="the transport between machines (default: tcp)"
    )
    parser.add_argument("--local", default="", help="the network within a machine: pcie3, nvlink3, memory, ...")
    parser.add_argument(
        "--devices-per-machine",
        type=int,
        default=0,
        metavar="N",
        help="the number of devices in each machine (default: as in the design)",
    )
    parser.add_argument(
        "--algorithm", choices=ALGORITHMS, default="auto", help="the all-reduce algorithm (default: auto)"
    )
    parser.add_argument(
        "--compression", choices=COMPRESSIONS, default="none", help="the compression of gradients (default: none)"
    )
    parser.add_argument("--servers", type=int, default=1, metavar="N", help="the number of ps tasks (default: 1)")
    parser.add_argument("--sync", action="store_true", help="with ps: all workers wait for each other")
    parser.add_argument(
        "--backup-workers",
        type=int,
        default=0,
        metavar="N",
        help="with ps and --sync: the number of late gradients for which a step does not wait",
    )
    parser.add_argument(
        "--microbatches",
        type=int,
        default=0,
        metavar="N",
        help="the number of microbatches of a pipeline (default: as in the design)",
    )
    parser.add_argument(
        "--stages",
        type=int,
        default=0,
        metavar="N",
        help="the number of stages of a pipeline (default: as in the design)",
    )
    parser.add_argument(
        "--input", type=float, default=0.0, metavar="N", help="the examples per second that each task can read"
    )
    parser.add_argument(
        "--straggling",
        type=float,
        default=0.0,
        metavar="PART",
        help="the standard deviation of a task's step times, divided by their mean",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


_SAME = (
    *("batch_size", "per_device", "device", "precision", "utilization", "network", "transport", "local"),
    *("devices_per_machine", "algorithm", "compression", "microbatches", "stages", "straggling"),
)
"""The arguments that have the same name as a field of ForecastSettings."""


def _settings(arguments: argparse.Namespace, strategy: str, **more: Any) -> ForecastSettings:
    link = None
    if arguments.cluster:
        from ..client.forecasting import link_of
        from ..client.session import session

        view = session()
        view.call(lambda fleet: fleet.ready(arguments.cluster))
        link = link_of(view.call(lambda fleet: fleet.checkup(arguments.cluster, network=True)).network)
    of_servers: dict[str, Any] = {}
    if strategy == "ps":
        of_servers = {
            "servers": arguments.servers,
            "sync": arguments.sync,
            "backup_workers": arguments.backup_workers,
        }
    same = {name: getattr(arguments, name) for name in _SAME}
    return ForecastSettings(
        strategy=strategy, link=link, input_examples_per_s=arguments.input, **same, **of_servers, **more
    )


def _predict(arguments: argparse.Namespace) -> int:
    from ..backend.planning import design_forecast

    try:
        tasks = [int(count) for count in arguments.tasks.split(",") if count]
    except ValueError:
        raise InvalidInput(
            f"--tasks must be integers as in 1,2,4, got {arguments.tasks!r:.100}", field="tasks"
        ) from None
    design = Design.open(arguments.design)
    settings = _settings(arguments, arguments.strategy, tasks=tasks, threshold=arguments.threshold)
    (found,) = design_forecast.forecasts(design, [settings])
    terminal.say(encode_json(found).decode() if arguments.json else "\n".join([repr(found), "", *found.notes]))
    return 0


def _plan(arguments: argparse.Namespace) -> int:
    from ..backend.planning import scale_plan

    target = ScaleTarget(
        examples_per_second=arguments.examples_per_second,
        hours=arguments.hours,
        device_hours=arguments.device_hours,
        examples=arguments.examples,
    )
    chosen = [arguments.strategy] if arguments.strategy else ["allreduce", "ps", "pipeline"]
    if not arguments.strategy:
        arguments.sync = True
    design = Design.open(arguments.design)
    found = scale_plan.plan(design, target, [_settings(arguments, strategy) for strategy in chosen])
    terminal.say(encode_json(found).decode() if arguments.json else repr(found))
    if found.design is None:
        return 1
    if arguments.output:
        found.design.save(arguments.output)
    return 0
