"""Tests of ``jupyter dtf runs``, ``logs``, ``run`` and others, on one existing cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

import jupyter_dtf as dtf

from .commandline import COMMAND, SCRIPT, dtf_command, script
from .patience import left_s

pytestmark = pytest.mark.module_directories

__all__ = ["script"]


def program(args: object, ctx: Any) -> None:
    print("I am", ctx.task)
    ctx.report(loss=0.25)
    if args == "wait":
        ctx.stop_requested.wait()


@pytest.fixture(scope="module")
def cluster(no_process_left_by_module: None) -> Iterator[dtf.Cluster]:
    with dtf.Cluster(jobs={"worker": 2}, name="here") as cluster:
        yield cluster


def test_runs_and_logs(cluster: dtf.Cluster) -> None:
    run = cluster.run(program, name="talk")
    _, line = dtf_command("runs", "-n", "1").stdout.splitlines()
    assert line.startswith(f"{run.id}  talk  succeeded  here     2 workers")
    assert line.endswith("loss 0.25")
    (info,) = json.loads(dtf_command("runs", "-n", "1", "--json").stdout)
    assert (info["id"], info["latest"]["loss"]) == (run.id, 0.25)

    assert dtf_command("logs", run.id, "worker:1").stdout == "I am worker:1\n"
    assert sorted(dtf_command("logs", "talk").stdout.splitlines()) == [
        "worker:0 | I am worker:0",
        "worker:1 | I am worker:1",
    ]
    wrong = dtf_command("logs", "talk", "worker:2")
    assert (wrong.returncode, "must be one of worker:0, worker:1, the tasks of talk" in wrong.stderr) == (1, True)


def test_a_run_is_shown_compared_exported_and_watched(cluster: dtf.Cluster, tmp_path: Path) -> None:
    first, second = (cluster.run(program, {"rate": rate}, name=f"rate {rate}") for rate in (0.5, 0.25))
    shown = json.loads(dtf_command("show", first.id, "--json").stdout)
    assert shown["run"]["parameters"] == {"rate": 0.5}
    assert shown["run"]["origin"]["versions"]["Python"]
    assert shown["code"][0] == {"name": __file__, "text": Path(__file__).read_text()}
    assert "def program(args" in dtf_command("show", first.id, "--code").stdout

    differing = dtf_command("compare", first.id, second.id).stdout.splitlines()
    assert ["*", "parameters.rate", "0.5", "0.25"] in [line.split() for line in differing]
    table = dtf_command("runs", "--filter", "rate < 0.4", "--columns", "id,rate,best.loss").stdout.splitlines()
    assert [line.split() for line in table] == [["ID", "RATE", "BEST.LOSS"], [second.id, "0.25", "0.25"]]
    wrong = dtf_command("runs", "--sort", "no_such")
    assert (wrong.returncode, "got 'no_such'" in wrong.stderr) == (2, True)

    points = dtf_command("export", first.id).stdout.splitlines()
    assert points[0] == "task,metric,step,time,value,seq,attempt"
    assert len(points) == 1 + len(first.metrics)

    under_way = cluster.run(program, "wait", name="watched", wait=False)
    with subprocess.Popen([*COMMAND, "watch", under_way.id], stdout=subprocess.PIPE, text=True) as process:
        under_way.wait_for(lambda info: "loss" in info.latest, left_s())
        assert process.poll() is None
        under_way.stop()
        assert process.wait(left_s()) == 0
        assert process.stdout is not None
        assert process.stdout.read().splitlines()[1].startswith("loss 0.25")


def test_tensorboard_is_opened_on_runs_and_ends_with_its_command(cluster: dtf.Cluster, tmp_path: Path) -> None:
    run = cluster.run(program, name="drawn twice")
    command = [*COMMAND, "tensorboard", run.id, "--logdir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().removeprefix("TensorBoard at ").strip()
            assert requests.get(f"{url}data/environment", timeout=left_s()).json()["data_location"] == str(tmp_path)
            process.send_signal(signal.SIGTERM)
            assert process.wait(left_s()) == 128 + signal.SIGTERM
        finally:
            process.kill()
    with pytest.raises(requests.ConnectionError):
        requests.get(url, timeout=left_s())
    for task in ("worker_0", "worker_1"):
        assert list((tmp_path / f"drawn_twice-{run.id}" / task).glob("events.out.tfevents.*"))
    wrong = dtf_command("tensorboard", "-n", "0")
    assert (wrong.returncode, "`-n` must be an integer >= 1, got 0" in wrong.stderr) == (2, True)


def test_logs_that_are_followed(cluster: dtf.Cluster) -> None:
    run = cluster.run(program, "wait", wait=False)
    command = [*COMMAND, "logs", run.id, "worker:0", "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "I am worker:0\n"  # while it runs
        assert process.poll() is None
        run.stop()
        assert process.wait(left_s()) == 0
        assert process.stdout.read() == ""


def test_run_shows_the_traceback_of_the_task_that_failed(cluster: dtf.Cluster, script: str) -> None:
    cluster.scale({"worker": 2, "ps": 1})
    found = dtf_command("run", "--cluster", "here", "--name", "unlucky", script, "--then=fail")
    assert found.returncode == 1
    assert "error: The run unlucky" in found.stderr
    assert "worker:1 failed: ValueError: no luck" in found.stderr
    number = SCRIPT.splitlines().index('        raise ValueError("no luck")') + 1
    assert f'  File "{script}", line {number}, in <module>\n    raise ValueError("no luck")\n' in found.stderr
    assert "runpy" not in found.stderr
    assert cluster.status == "running"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_run_stops_with_its_command(cluster: dtf.Cluster, script: str, number: signal.Signals) -> None:
    command = [*COMMAND, "run", "--cluster", "here", "--jobs", "worker=1,ps=1", script, "--then", "wait"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            assert process.stdout.readline() == f"worker:0 | worker 0 42 wait {os.getcwd()}\n"
            process.send_signal(number)
            assert "interrupt again to end it immediately" in process.stderr.readline()
            process.send_signal(number)
            assert process.wait(left_s()) == 130
            assert "is stopped" in process.stderr.read()
        finally:
            process.kill()
    assert cluster.runs[0].status == "stopped"


DIES_ONCE = """
import os, pathlib, signal, sys
mark = pathlib.Path(sys.argv[1])
if not mark.exists():
    mark.touch()
    print("dies", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
print("goes on")
"""


def test_run_starts_a_script_again_as_often_as_it_is_told_to(cluster: dtf.Cluster, tmp_path: Path) -> None:
    script = tmp_path / "dies.py"
    script.write_text(DIES_ONCE)
    words = ["run", "--cluster", "here", "--jobs", "worker=1"]
    found = dtf_command(*words, "--restarts", "2", str(script), str(tmp_path / "once"))
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines() == ["worker:0 | dies", "worker:0 | goes on"]
    assert "worker:0 died (SIGKILL)" in found.stderr
    assert "attempt 2 of 3" in found.stderr
    found = dtf_command(*words, str(script), str(tmp_path / "never again"))
    assert (found.returncode, "worker:0 died (SIGKILL)" in found.stderr) == (1, True)
    wrong = dtf_command(*words, "--restarts", "-1", str(script))
    assert (wrong.returncode, "`max_restarts` must be an integer >= 0, got -1" in wrong.stderr) == (2, True)
