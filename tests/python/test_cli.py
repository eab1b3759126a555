"""Tests of ``jupyter dtf`` as users run it: processes, exit statuses, and both output streams."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import jupyter_dtf as dtf
from jupyter_dtf import cli
from jupyter_dtf.backend.viewer import connections
from jupyter_dtf.client import session as sessions

from .commandline import COMMAND, dtf_command, script
from .patience import left_s

__all__ = ["script"]


@pytest.fixture(autouse=True)
def leave_session() -> Iterator[None]:
    """Close the session, which commands in this process would close only at its exit."""
    yield
    if sessions._session is not None:
        sessions._session.close()


def test_version() -> None:
    found = dtf_command("--version")
    assert (found.returncode, found.stdout) == (0, f"jupyter_dtf {dtf.__version__}\n")


def test_help_names_every_command() -> None:
    found = dtf_command("--help")
    assert found.returncode == 0
    for command in ("start", "list", "scale", "stop", "run", "runs", "logs", "server", "demo", "doctor"):
        assert re.search(rf"^    {command} ", found.stdout, re.MULTILINE)


def test_jupyter_finds_it() -> None:
    jupyter = shutil.which("jupyter", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if jupyter is None or not Path(sys.executable).with_name("jupyter-dtf").exists():
        pytest.skip("jupyter_dtf is not installed in this environment")
    found = subprocess.run([jupyter, "dtf", "--version"], capture_output=True, text=True, timeout=left_s(), check=False)
    assert found.stdout == f"jupyter_dtf {dtf.__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["bogus"],
        ["run"],
        ["run", "-n", "0", __file__],
        ["run", "-n", "2", "--jobs", "worker=2", __file__],
        ["run", "--jobs", "worker", __file__],
        ["server"],
        ["start", "Bad Name"],
        ["start", "--jobs", "worker"],
        ["start", "--option", "nope=1"],
        ["start", "--grace", "-1"],
        ["start", "--grace", "5", "--foreground"],
        ["scale", "x"],
        ["scale", "x", "worker=0"],
        ["stop"],
        ["stop", "x", "--all"],
        ["runs", "-n", "-1"],
        ["doctor", "--network"],
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_is_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status: object = cli.main(arguments)
    except SystemExit as exit_:  # raised by argparse
        status = exit_.code
    found = capsys.readouterr()
    assert (status, found.out) == (2, "")
    assert found.err.splitlines()[-1].startswith("jupyter dtf")
    assert ": error: " in found.err.splitlines()[-1]


@pytest.mark.parametrize(
    "arguments",
    [
        ["stop", "nope"],
        ["scale", "nope", "worker=2"],
        ["doctor", "nope"],
        ["logs", "nope"],
        ["start", "--kind", "nope"],
        ["run", "nope.py"],
        ["run", "--cluster", "nope", __file__],
    ],
    ids=" ".join,
)
def test_what_fails_is_1_and_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == 1
    found = capsys.readouterr()
    assert found.out == ""
    assert re.fullmatch(r"jupyter dtf: error: .*\n", found.err)


def test_the_shell_gets_the_exit_status() -> None:
    assert dtf_command("bogus").returncode == 2
    found = dtf_command("logs", "nope")
    assert (found.returncode, found.stderr.count("\n")) == (1, 1)


def test_nothing_there() -> None:
    assert dtf_command("list").stdout == "There are no clusters.\n"
    assert dtf_command("list", "--json").stdout == "[]\n"
    assert dtf_command("runs").stdout == "There are no runs.\n"
    assert dtf_command("stop", "--all").returncode == 0


def test_life_of_a_cluster() -> None:
    started = dtf_command("start", "--jobs", "worker=2,ps=1", "--option", "threads_per_host=2")
    assert (started.returncode, started.stdout, started.stderr) == (0, "local-1\n", "")
    again = dtf_command("start", "local-1")
    assert again.returncode == 1
    assert "exists" in again.stderr

    head, line = dtf_command("list").stdout.splitlines()
    assert head.split()[0] == "NAME"
    assert line.startswith("local-1  running  local  2 workers, 1 ps")
    (info,) = json.loads(dtf_command("list", "--json").stdout)
    assert (info["name"], info["state"], info["jobs"]) == ("local-1", "running", {"worker": 2, "ps": 1})

    assert dtf_command("scale", "local-1", "worker=3").stdout == "local-1: 3 workers\n"

    stopped = dtf_command("stop", "local-1", "nope")
    assert stopped.stdout == "The cluster local-1 has ended.\n"
    assert (stopped.returncode, "nope" in stopped.stderr) == (1, True)
    assert dtf_command("list").stdout == "There are no clusters.\n"


def test_stop_all() -> None:
    for name in ("one", "two"):
        assert dtf_command("start", name, "--jobs", "worker=1").stdout == f"{name}\n"
    assert dtf_command("stop", "--all").stdout == "The cluster one has ended.\nThe cluster two has ended.\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_cluster_in_the_foreground_ends_with_its_command(number: signal.Signals) -> None:
    with subprocess.Popen([*COMMAND, "start", "--foreground"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "local-1\n"
        process.send_signal(number)
        assert process.wait(left_s()) == 0
    assert dtf_command("list").stdout == "There are no clusters.\n"


def test_a_cluster_in_the_foreground_ends_with_a_killed_command() -> None:
    with subprocess.Popen([*COMMAND, "start", "--foreground"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "local-1\n"
        cluster_process = psutil.Process(connections.read("local-1").pid)
        process.kill()
    cluster_process.wait(left_s())


def test_run_starts_a_cluster_and_runs_an_unchanged_script_on_it(script: str) -> None:
    found = dtf_command("run", "--jobs", "worker=2,ps=1", script, "--", "--then", "end")
    assert (found.returncode, found.stderr) == (0, "")
    assert sorted(found.stdout.splitlines()) == [
        f"worker:{index} | worker {index} 42 end {os.getcwd()}" for index in (0, 1)
    ]
    assert dtf_command("list").stdout == "There are no clusters.\n"
    (info,) = json.loads(dtf_command("runs", "--json").stdout)
    assert (info["name"], info["kind"], info["state"]) == ("train.py", "script", "succeeded")
    assert info["parameters"] == {"script": script, "arguments": "--then end"}


@pytest.mark.slow
def test_demo() -> None:
    found = dtf_command("demo", "--epochs", "5", timeout=left_s())
    assert found.returncode == 0, found.stderr
    assert "2 TensorFlow processes" in found.stdout
    match = re.search(r"([\d.]+)% of 360 held-out digits", found.stdout)
    assert match is not None
    assert float(match[1]) > 90
    assert "Epoch 5/5 - accuracy" in found.stderr
