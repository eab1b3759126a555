"""Tests of interrupts while waiting for a run, with real signals, on a real cluster, in a terminal and a notebook."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

import jupyter_dtf as dtf
from jupyter_dtf.client.session import session
from jupyter_dtf.client.submitting import begun
from jupyter_dtf.schema import payload
from jupyter_dtf.schema.run import RunInfo, RunRequest

from ..notebook.kernel import Notebook
from ..patience import left_s

pytestmark = pytest.mark.module_directories

SCRIPT = """
import jupyter_dtf as dtf

def program(args, ctx):
    ctx.progress(1, 10)
    ctx.stop_requested.wait()

dtf.connect("shared").run(program)
"""


@pytest.fixture(scope="module")
def cluster(no_process_left_by_module: None) -> Iterator[dtf.Cluster]:
    with dtf.Cluster(jobs={"worker": 1}, name="shared") as shared:
        yield shared.wait_ready()
    session().close()


@pytest.fixture
def terminal(cluster: dtf.Cluster, tmp_path: Path) -> Iterator[pexpect.spawn]:
    """Start a script that waits for a run, in a terminal 60 characters wide."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    child = pexpect.spawn(sys.executable, [str(script)], dimensions=(24, 60), timeout=left_s(), encoding="utf-8")
    child.expect(r"program( \d+)? running .* 10%")
    yield child
    child.close(force=True)


def newest(cluster: dtf.Cluster) -> dtf.Run:
    """Return the newest run, once this process knows of one."""
    hub, seen = session().hub, threading.Event()
    unsubscribe = hub.subscribe(lambda run_id: seen.set())
    try:
        while not cluster.runs:
            assert seen.wait(left_s())
            seen.clear()
    finally:
        unsubscribe()
    return cluster.runs[0]


SLOW = """
import time
import numpy as np
import jupyter_dtf as dtf
from jupyter_dtf.backend.machine import shared_directory
from jupyter_dtf.backend.viewer import sending

write = shared_directory.write

def slowly(descriptor, data):
    time.sleep(0.05)  # as a disk or a network that takes its time
    write(descriptor, data)

shared_directory.write = slowly
sending._WRITTEN_BYTES = 1 << 16

def program(args, ctx):
    pass

dtf.connect("shared").run(program, np.zeros(64 << 20, np.uint8), wait={wait})
"""


@pytest.mark.parametrize("wait", [True, False])
def test_an_interrupt_while_data_is_sent_stops_the_run(cluster: dtf.Cluster, tmp_path: Path, wait: bool) -> None:
    script = tmp_path / "script.py"
    script.write_text(SLOW.format(wait=wait))
    child = pexpect.spawn(sys.executable, [str(script)], dimensions=(24, 60), timeout=30, encoding="utf-8")
    child.expect(r"program( \d+)? pending .*sending [\d.]+ [KM]iB of 64.0 MiB, [\d.]+ [KM]iB/s")
    child.sendintr()
    child.expect("Stopping the run: not all of its data has been sent.")
    child.expect("is stopped: not all of its data had been sent")
    child.expect(pexpect.EOF)
    child.close()
    run = newest(cluster)
    run.wait(10)
    assert run.status == "stopped"


def test_one_interrupt_leaves_the_run_to_itself(cluster: dtf.Cluster, terminal: pexpect.spawn) -> None:
    run = newest(cluster)
    terminal.sendintr()
    terminal.expect("interrupt again within 2 s to stop the run.")
    terminal.expect("detached; the run continues as long as its cluster")
    terminal.expect(f"dtf.run\\('{run.id}'\\).stop\\(\\)")
    terminal.expect(pexpect.EOF)
    assert run.status == "running"
    run.stop()
    assert run.wait(left_s()).status == "stopped"


def test_two_interrupts_stop_the_run(cluster: dtf.Cluster, terminal: pexpect.spawn) -> None:
    run = newest(cluster)
    terminal.sendintr()
    terminal.expect("Interrupted: interrupt again")
    terminal.sendintr()
    terminal.expect("Stopping the run.")
    terminal.expect(f"the run program( \\d+)? \\({run.id}\\) is stopped")
    terminal.expect(pexpect.EOF)
    assert run.wait(left_s()).status == "stopped"


INTERRUPT_EACH_WAIT = """
import os, signal, threading
import jupyter_dtf as dtf

wait = dtf.Run.wait

def interrupted(run, timeout_s=None, left=[{count}]):
    if left[0]:
        left[0] -= 1
        threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
    return wait(run, timeout_s)

def program(args, ctx):
    ctx.stop_requested.wait()

cluster = dtf.connect("shared")
dtf.Run.wait = interrupted
try:
    cluster.run(program)
finally:
    dtf.Run.wait = wait
"""


@pytest.mark.parametrize(
    ("count", "said", "status"), [(1, "detached; the run continues", "running"), (2, "is stopped", "stopped")]
)
def test_interrupts_in_a_notebook(cluster: dtf.Cluster, count: int, said: str, status: str) -> None:
    with Notebook() as notebook:
        text = notebook.error(INTERRUPT_EACH_WAIT.format(count=count))
        assert said in text
        assert "\n" not in text  # one line, no traceback
        reached = f"run = cluster.runs[0]\nrun.wait_for(lambda info: info.state.value == {status!r}, {left_s():.0f})\n"
        assert notebook.value(f"{reached}run.status") == repr(status)
        notebook.run("run.stop()\nrun.wait(10)")


def test_a_run_that_is_interrupted_before_anybody_holds_it_is_stopped(cluster: dtf.Cluster) -> None:
    accepted, interrupted = threading.Event(), threading.Event()
    found: list[str] = []

    async def start(fleet: Any, _: Any) -> RunInfo:
        info: RunInfo = await fleet.submit(cluster.name, RunRequest(name="nobody's"), payload.pack((waits, (), {})))
        found.append(info.id)
        accepted.set()
        await asyncio.to_thread(interrupted.wait, left_s())
        return info

    def interrupt() -> None:
        accepted.wait(left_s())
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        interrupted.set()

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        begun(start, dtf.Run)
    run = dtf.Run(found[0])
    run.wait(left_s())
    assert run.info.state.value == "stopped"


def waits(ctx: Any) -> None:
    ctx.stop_requested.wait()
