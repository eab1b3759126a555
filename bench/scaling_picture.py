"""``python -m bench.scaling_picture``: draw examples per second over the number of tasks, measured here and forecast.

The measurements have 1 to 4 tasks with one thread each. If the machine has fewer cores, tasks share them. The forecast
assumes one core per task; a dotted line shows the forecast for the machine's cores. ``--small`` is only for testing.
"""

from __future__ import annotations

import argparse
import os
import statistics
from pathlib import Path
from typing import Any

import numpy as np

import jupyter_dtf as dtf
from jupyter_dtf.schema.forecast import Forecast
from jupyter_dtf.schema.placement import Calibration, Device

from . import digits
from .scaling import network
from .scaling_svg import Panel, draw
from .steps import steps_per_second

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "scaling.svg"
BATCH = 64  # per worker
TASKS = (1, 2, 3, 4)
FORECAST = (1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512)
PER_MACHINE = 8
FAMILIES: dict[str, Any] = {
    "All-reduce": dtf.AllReduce(),
    "Parameter server, asynchronous": dtf.ParameterServer(),
}


def _images(count: int) -> tuple[Any, Any]:
    x, y = digits.data()
    images = np.kron(x.reshape(-1, 8, 8), np.ones((1, 4, 4), np.float32))[..., None]
    return np.resize(images, (count, *images.shape[1:])), np.resize(y, count)


def measured(rounds: int, steps: int) -> tuple[Calibration, dict[str, dict[int, list[float]]]]:
    """Return a calibration with one task per core, and measured examples per second.

    The latter are lists with one value for each round, keyed by family and number of tasks.
    """
    model = network()
    cores = min(len(os.sched_getaffinity(0)), max(TASKS))
    with dtf.Cluster(jobs={"worker": cores}) as cluster:
        calibration = dtf.calibrate(model, cluster, batch_size=BATCH, microbatches=1, threads_per_task=1)
    found: dict[str, dict[int, list[float]]] = {family: {count: [] for count in TASKS} for family in FAMILIES}
    with dtf.Cluster(jobs={"worker": max(TASKS), "ps": 1}) as cluster:
        for _ in range(rounds):
            for family, strategy in FAMILIES.items():
                for count, rates in found[family].items():
                    jobs = {"worker": count, "ps": 1} if strategy.name == "ps" else {"worker": count}
                    x, y = _images(BATCH * count * steps)
                    run = cluster.fit(
                        model,
                        x,
                        y,
                        batch_size=BATCH * count,
                        strategy=strategy,
                        jobs=jobs,
                        threads_per_task=1,
                        wait=False,
                    )
                    rates.append(steps_per_second(run.wait(), skip=4) * BATCH * count)
    return calibration, found


def forecasts(calibration: Calibration, family: str, cores: int) -> tuple[Forecast, dict[int, float]]:
    """Return the forecast with one core per task, and forecast examples per second if tasks share ``cores``.

    The latter are keyed by number of tasks.
    """
    model = network()
    settings: Any = {
        "strategy": FAMILIES[family],
        "per_device": BATCH,
        "calibration": calibration,
        "local": "memory",
        "network": "10gbit",
        "devices_per_machine": PER_MACHINE,
    }
    whole = dtf.predict(model, tasks=FORECAST, **settings)
    shared = {}
    for count in TASKS:
        slower = max(1.0, count / cores)
        fewer = Calibration(
            batch_size=calibration.batch_size,
            devices=[Device(name=each.name, flops_per_s=each.flops_per_s / slower) for each in calibration.devices],
            link=calibration.link,
            layer_seconds={
                layer: [seconds * slower for seconds in passes] for layer, passes in calibration.layer_seconds.items()
            },
            overhead_s=calibration.overhead_s * slower,
        )
        one = dtf.predict(model, tasks=count, **{**settings, "calibration": fewer})
        shared[count] = one.at(count).examples_per_second
    return whole, shared


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scaling_picture", description=__doc__)
    parser.add_argument("--small", action="store_true", help="measure only one round of a few steps")
    parser.add_argument("-o", "--output", type=Path, default=PICTURE, help="the file to write (default: %(default)s)")
    arguments = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    rounds, steps = (1, 10) if arguments.small else (5, 28)
    cores = len(os.sched_getaffinity(0))
    calibration, rates = measured(rounds, steps)
    panels = []
    for family, found in rates.items():
        whole, shared = forecasts(calibration, family, cores)
        points = {count: (min(each), statistics.median(each), max(each)) for count, each in found.items()}
        panels.append(
            Panel(
                title=family,
                tasks=[point.tasks for point in whole.points],
                value=[point.examples_per_second for point in whole.points],
                low=[point.low for point in whole.points],
                high=[point.high for point in whole.points],
                linear=[point.linear for point in whole.points],
                measured=points,
                shared=shared if cores < max(TASKS) else {},
            )
        )
        for count, (_, median, _) in points.items():
            print(f"{family}, {count}: measured {median:.0f}/s, forecast {shared[count]:.0f}/s", flush=True)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    where = f"beyond {PER_MACHINE} tasks: machines of {PER_MACHINE} cores, 10 Gbit/s; {cores} cores here"
    arguments.output.write_text(draw(panels, "examples per second over tasks", where), encoding="utf-8")
    print(arguments.output)


if __name__ == "__main__":
    main()
