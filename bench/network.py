"""Exchanges between two simulated machines, over a link with 1 Gbit/s, 10 Gbit/s and without a limit."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from typing import Any

from .link import NAMES, Link, why_not
from .network_task import TENSORS
from .table import Row

BYTES = 40_000_000
LEAST = {"40 MB, one tensor": 3.0, "40 MB, 100 tensors": 3.0, "four tensors of 1,000 floats": 2.0}


def measure() -> list[Row]:
    if why := why_not():
        print(f"The network cannot be measured here: {why}", file=sys.stderr)
        return []
    rows: list[Row] = []
    with Link() as link:
        for how, encrypt in (("", "1"), (", unencrypted", "0")):
            found = _run("sums", encrypt)
            rows += [_row(f"all-reduce, {case}{how}", found[case], LEAST[case]) for case in TENSORS]
        for gigabits in (10, 1):
            link.limit(gigabits * 1e9)
            found = _run("large")
            ours = statistics.median(times[0] for times in found)
            line = BYTES * 8 / (gigabits * 1e9)
            name = f"40 MB over {gigabits} Gbit/s"
            target = 1.15 if gigabits == 1 else 2
            rows.append(Row(f"{name}, against the line rate", _ms(ours), _ms(line), ours / line, "<=", target))
            halves = statistics.median(times[1] for times in found)
            ratio = statistics.median(half / whole for whole, half in found)
            rows.append(Row(f"{name}, as fp16", _ms(halves), _ms(ours), ratio, "<=", 0.6 if gigabits == 1 else 1.2))
        found = _run("training")
        with_buckets, without = (statistics.median(speeds) for speeds in zip(*found, strict=True))
        ratio = statistics.median(one / other for one, other in found)
        name = "steps/s, 10 million parameters over 1 Gbit/s, in buckets"
        rows.append(Row(name, f"{with_buckets:.3g}/s", f"{without:.3g}/s", ratio, ">=", 1.3))
    return rows


def _row(what: str, times: list[tuple[float, float]], least: float) -> Row:
    ours, rings = (statistics.median(each) for each in zip(*times, strict=True))
    ratio = statistics.median(ring / our for our, ring in times)
    return Row(what, _ms(ours), _ms(rings), ratio, ">=", least)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms"


def _run(case: str, encrypt: str = "1") -> Any:
    """Run a case in both tasks, and return the first task's measurements. Raises RuntimeError if a task fails."""
    environment = {**os.environ, "DTF_ENCRYPT": encrypt, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    with tempfile.TemporaryDirectory() as directory:
        tasks = []
        for rank, name in enumerate(NAMES):
            program = [sys.executable, "-m", "bench.network_task", case, str(rank), directory]
            command = ["ip", "netns", "exec", name, *program]
            tasks.append(
                subprocess.Popen(
                    command,
                    env=environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE if os.environ.get("BENCH_QUIET") else None,
                    text=True,
                )
            )
        try:
            lines = [task.stdout.readline() for task in tasks if task.stdout is not None]
        finally:
            for task in tasks:
                task.kill() if sys.exc_info()[0] else task.communicate()
    if not all(lines):
        raise RuntimeError(f"A task ended before it had measured {case}")
    return json.loads(lines[0])
