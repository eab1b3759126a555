"""Jobs in subprocesses: what is left of them is killed, and nothing else."""

from __future__ import annotations

import asyncio
import os
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from jupyter_dtf import entry_points
from jupyter_dtf.backend.machine import children, subprocess_runner

from ...patience import left_s

LEAVES_A_PROCESS = """
    import subprocess, sys
    nothing = subprocess.DEVNULL
    left = subprocess.Popen(["sleep", "1000"], stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True)
    print(left.pid, flush=True)
"""


def be_job(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    command = [sys.executable, "-c", textwrap.dedent(program)]
    monkeypatch.setattr(children, "command", lambda *words: command)
    monkeypatch.setattr(entry_points, "point", lambda group, name: SimpleNamespace(value="a.job"))


async def test_what_a_job_leaves_behind_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    be_job(monkeypatch, LEAVES_A_PROCESS)
    left = await subprocess_runner.run("job", None, int)
    assert not psutil.pid_exists(left) or psutil.Process(left).status() == psutil.STATUS_ZOMBIE


async def test_no_group_is_killed_whose_leader_has_been_reaped(monkeypatch: pytest.MonkeyPatch) -> None:
    signalled: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda group, number: signalled.append(group))
    be_job(monkeypatch, "print(1)")
    assert await subprocess_runner.run("job", None, int) == 1
    assert signalled == []


async def test_a_job_that_is_given_up_ends_with_everything(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    os.mkfifo(pid)
    be_job(monkeypatch, f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(1000)")
    job = asyncio.create_task(subprocess_runner.run("job", None, int))
    process = psutil.Process(int(await asyncio.wait_for(asyncio.to_thread(pid.read_text), left_s())))
    job.cancel()
    with pytest.raises(asyncio.CancelledError):
        await job
    assert not process.is_running()
