"""Compares searches with plain alternatives: pruning without barriers, the rate of reports, the cost of scheduling."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import tempfile
import time
from collections import deque
from types import SimpleNamespace
from typing import Any

import jupyter_dtf as dtf
from jupyter_dtf.backend.cluster.run_queue import RunQueue
from jupyter_dtf.backend.planning.launch_plan import HostSlot, PlannedTask, plan
from jupyter_dtf.backend.planning.trial_places import places_of
from jupyter_dtf.client.search.optuna_trials import AskedTrials
from jupyter_dtf.client.search.space import as_space
from jupyter_dtf.client.search.study import as_pruner, as_sampler, open_study
from jupyter_dtf.client.search.trial_runs import Ended
from jupyter_dtf.schema.run import RunState

from .table import Row

PLACES = 4
TRIALS, FACTOR, RUNGS = 27, 3, (3, 9, 27)
SLOW, FAST_S, SLOW_S = 0.25, 0.02, 0.2
"""A quarter of the trials take ten times as long for a step."""
SEEDS = 3
REPORTS, REPORTS_BY_HAND = 20_000, 200
SLOTS, FEW, MANY = 1_000, 1_000, 10_000

BY_HAND = """
import sys, optuna
optuna.logging.set_verbosity(optuna.logging.WARNING)
trial = optuna.load_study(study_name="by hand", storage=sys.argv[1]).ask()
for step in range(int(sys.argv[2])):
    trial.report(1 / (step + 1), step)
"""


def train(params: dict[str, Any], ctx: dtf.Context) -> float:
    """Report a loss that decreases toward ``x`` with each step, and return the last one."""
    for step in range(params["begin"], params["end"]):
        time.sleep(params["step_s"])
        ctx.report(step + 1, loss=params["x"] + 1 / (step + 1))
    return float(params["x"] + 1 / params["end"])


def train_part(x: float, step_s: float, begin: int, end: int) -> float:
    """Do the same from a checkpoint to the next barrier, without reports."""
    time.sleep((end - begin) * step_s)
    return x + 1 / end


def drawn(seed: int) -> list[tuple[float, float]]:
    """Return (x, seconds per step) of each trial. The best trial is fast: a slow one would take as long under any
    scheduler.
    """
    chance = random.Random(seed)
    found = [(chance.random(), SLOW_S if chance.random() < SLOW else FAST_S) for _ in range(TRIALS)]
    best = min(range(TRIALS), key=lambda at: found[at][0])
    found[best] = found[best][0], FAST_S
    return found


def with_barriers_s(cluster: dtf.Cluster, trials: list[tuple[float, float]]) -> float:
    """Return the seconds until synchronous successive halving has the best value."""
    began, before = time.time(), 0
    for rung in RUNGS:
        columns: dict[str, list[Any]] = {"x": [x for x, _ in trials], "step_s": [s for _, s in trials]}
        columns |= {"begin": [before] * len(trials), "end": [rung] * len(trials)}
        table = dtf.launch(cluster, train_part, columns)
        ranked = sorted(range(len(trials)), key=lambda at: table["result"][at])
        best_run = dtf.Run(table["run"][ranked[0]])
        trials, before = [trials[at] for at in ranked[: max(1, len(trials) // FACTOR)]], rung
    return (best_run.info.ended or 0.0) - began


def without_s(cluster: dtf.Cluster, trials: list[tuple[float, float]]) -> float:
    """Return the seconds until a search of the same trials with ASHA has the best value."""
    from optuna.pruners import SuccessiveHalvingPruner

    space = {"x": [0.0], "step_s": [0.0], "begin": [0], "end": [RUNGS[-1]]}
    rows = [{"x": x, "step_s": s, "begin": 0, "end": RUNGS[-1]} for x, s in trials]
    space = {name: list(dict.fromkeys(row[name] for row in rows)) for name in space}
    pruner = SuccessiveHalvingPruner(min_resource=RUNGS[0], reduction_factor=FACTOR)
    began = time.time()
    search = cluster.search(
        train, space, trials=TRIALS, objective="loss", sampler=_Listed(rows), pruner=pruner, name=f"asha {began:.0f}"
    )
    assert search.best.params["x"] == min(x for x, _ in trials)
    assert search.best.run is not None
    return (search.best.run.info.ended or 0.0) - began


def _Listed(rows: list[dict[str, Any]]) -> Any:  # noqa: N802
    """Return a sampler that suggests these rows, one after another."""
    import optuna

    class Listed(optuna.samplers.RandomSampler):
        def sample_independent(self, study: Any, trial: Any, name: str, distribution: Any) -> Any:
            return rows[trial.number][name]

    return Listed()


def report_many(params: dict[str, Any], ctx: dtf.Context) -> None:
    for step in range(REPORTS):
        ctx.report(step, loss=1 / (step + 1))


def reports_per_s(cluster: dtf.Cluster) -> float:
    """Return the reports per second of two trials. A report counts once it is in the plots' series and in the study."""
    began = time.perf_counter()
    search = cluster.search(report_many, {"x": [1, 2]}, sampler="grid", objective="loss")
    took_s = time.perf_counter() - began
    assert all(len(trial.intermediate_values) == REPORTS for trial in search.study.get_trials(deepcopy=False))
    return 2 * REPORTS / took_s


def reports_by_hand_per_s() -> float:
    """Return the reports per second of two processes that report to Optuna's own storage, as its pruners require."""
    with tempfile.TemporaryDirectory() as directory:
        storage = f"sqlite:///{directory}/study.db"
        open_study("by hand", storage, as_sampler("random", 1), as_pruner(None), ["minimize"])
        began = time.perf_counter()
        command = [sys.executable, "-c", BY_HAND, storage, str(REPORTS_BY_HAND)]
        both = [subprocess.Popen(command) for _ in range(2)]
        if any(process.wait() for process in both):
            raise RuntimeError("A process could not report to Optuna")
        return 2 * REPORTS_BY_HAND / (time.perf_counter() - began)


class _Simulated:
    """A simulated cluster of ``SLOTS`` hosts with one slot each, for ``RunQueue``."""

    has_all_hosts = True

    def __init__(self) -> None:
        hosts = [HostSlot(f"tcp://{number}", str(number), str(number), 1) for number in range(SLOTS)]
        self._places = places_of(plan({"worker": SLOTS}, hosts))
        self._changed = asyncio.Condition()

    def places(self) -> list[PlannedTask]:
        return self._places

    async def until(self, condition: Any) -> None:
        async with self._changed:
            await self._changed.wait_for(condition)

    async def wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()


async def scheduled_s(trials: int) -> float:
    """Return the seconds that scheduling takes per trial, with trials that do nothing.

    This is the time to request the trial from the study, to assign it a slot, and to report its end.
    """
    study = open_study(None, None, as_sampler("random", 1), as_pruner(None), ["minimize"])
    asked = AskedTrials(study, train, as_space({"x": (0.0, 1.0)}), ["loss"], trials, keeps=False)
    queue = RunQueue(_Simulated())  # type: ignore[arg-type]
    running: deque[tuple[int, Any]] = deque()
    request = SimpleNamespace(places=1, place_shares=1, threads_per_task=0)
    began = time.perf_counter()
    while True:
        while len(running) < SLOTS and (following := asked.next()) is not None:
            info = SimpleNamespace(jobs={"worker": 1}, latest={}, started=0.0, ended=1.0, state=RunState.SUCCEEDED)
            info.run_dir = ""
            run = SimpleNamespace(id=str(following.number), is_active=True, info=info, request=request)
            assert len(await queue.acquire(run)) == 1  # type: ignore[arg-type]
            running.append((following.number, run))
        if not running:
            return (time.perf_counter() - began) / trials
        number, run = running.popleft()
        await queue.leave(run)
        asked.ended(Ended(number, run.info, 0.5))


def measure() -> list[Row]:
    few, many = asyncio.run(scheduled_s(FEW)), asyncio.run(scheduled_s(MANY))
    with dtf.Cluster(jobs={"worker": PLACES}, threads_per_host=PLACES) as cluster:
        dtf.launch(cluster, train_part, {"x": [0.0] * PLACES, "step_s": [0.0] * PLACES, "begin": [0] * PLACES,
                                         "end": [1] * PLACES})  # fmt: skip
        barriers = sum(with_barriers_s(cluster, drawn(seed)) for seed in range(SEEDS))
        without = sum(without_s(cluster, drawn(seed)) for seed in range(SEEDS))
    with dtf.Cluster(jobs={"worker": 2}) as cluster:
        dtf.launch(cluster, train_part, {"x": [0.0], "step_s": [0.0], "begin": [0], "end": [1]})  # wait for the cluster
        reports = reports_per_s(cluster)
    hand = reports_by_hand_per_s()
    return [
        Row(
            f"time to the same best value, {TRIALS} trials of uneven speed, synchronous halving over ASHA",
            f"{without / SEEDS:.1f} s",
            f"{barriers / SEEDS:.1f} s",
            barriers / without,
            ">=",
            1.5,
        ),
        Row("reports per second, two trials together", f"{reports:,.0f}/s", f"{hand:,.0f}/s", reports, ">=", 5_000),
        Row(
            f"scheduling time per trial, {MANY:,} trials on {SLOTS:,} slots, over {FEW:,} trials",
            f"{many * 1000:.2f} ms",
            f"{few * 1000:.2f} ms",
            many / few,
            "<=",
            1.2,
        ),
    ]
