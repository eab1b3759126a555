"""Tests of a task's inlet, fed by threads and by processes that are killed."""

from __future__ import annotations

import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jupyter_dtf.backend.machine.feed_outlet import Outlet, inlets
from jupyter_dtf.backend.task.feed.inlet import Inlet
from jupyter_dtf.schema import feed_wire
from tests.python import patience


@pytest.fixture
def inlet(tmp_path: Path) -> Iterator[Inlet]:
    with Inlet(feed_wire.inlet_path(tmp_path, "worker:1"), items=2, nbytes=10_000) as made:
        yield made


def test_items_come_in_order_with_arrays_and_then_the_end(inlet: Inlet, tmp_path: Path) -> None:
    assert inlets(tmp_path) == {"worker:1": inlet.path}

    def push() -> list[bool]:
        with Outlet(inlet.path) as outlet:
            taken = [outlet.put("input", {"x": np.full((100, 4), n, "float32"), "n": n}) for n in range(10)]
            outlet.put("other", "aside")
            outlet.end("input")
        return taken

    with ThreadPoolExecutor() as pool:
        pushed = pool.submit(push)
        for n in range(10):
            item = inlet.get("input")
            assert item["n"] == n
            item["x"] += 1  # the array belongs to the reader
            np.testing.assert_array_equal(item["x"], np.full((100, 4), n + 1, "float32"))
        with pytest.raises(EOFError):
            inlet.get("input")
        with pytest.raises(EOFError):
            inlet.get("input")
        assert pushed.result() == [True] * 10
    assert inlet.get("other") == "aside"
    with pytest.raises(queue.Empty):
        inlet.get("other", timeout=0)


@pytest.mark.parametrize("array", [np.zeros(1), np.zeros(1_000)], ids=["items", "bytes"])
def test_a_full_queue_keeps_its_pushers_waiting(inlet: Inlet, array: np.ndarray[Any, Any]) -> None:
    fits = 2 if array.nbytes < 100 else 1
    put = threading.Semaphore(0)

    def push() -> None:
        with Outlet(inlet.path) as outlet:
            for _ in range(4):
                outlet.put("input", array)
                put.release()

    with ThreadPoolExecutor() as pool:
        pushed = pool.submit(push)
        for _ in range(fits):
            put.acquire()
        with Outlet(inlet.path) as other:  # another queue has room
            assert other.put("other", array)
        patience.until(lambda: inlet.waiting("input") == fits, "a full queue")
        assert not put.acquire(blocking=False)
        inlet.get("input")
        put.acquire()
        inlet.refuse("input")
        pushed.result()
    with Outlet(inlet.path) as late:
        assert not late.put("input", array)


def test_an_item_that_is_still_arriving_counts(inlet: Inlet) -> None:
    with socket.socket(socket.AF_UNIX) as slow:
        with feed_wire.address(inlet.path) as address:
            slow.connect(address)
        slow.sendall(feed_wire.header(feed_wire.PUT, "input", 3) + b"th")
        patience.until(lambda: inlet._queue("input").receiving == 1, "an item that arrives")
        with Outlet(inlet.path) as other:
            other.put("input", 1)
            with pytest.raises(TimeoutError, match="'input'"):
                Outlet(inlet.path, timeout=0.1).put("input", 2)
            assert inlet.waiting("input") == 1


def test_who_gives_up_pushing_is_seen_and_his_item_is_not(inlet: Inlet) -> None:
    with Outlet(inlet.path) as first:
        first.put("input", 1)
        first.put("input", 2)
        with pytest.raises(TimeoutError, match="'input'"):
            Outlet(inlet.path, timeout=0.1).put("input", 3)
        assert [inlet.get("input"), inlet.get("input")] == [1, 2]
        with pytest.raises(ConnectionError):
            inlet.get("input")


def test_the_time_of_many_items_together_ends(inlet: Inlet) -> None:
    with Outlet(inlet.path, timeout=60) as outlet:
        outlet.give_up_at(time.monotonic() + 60)
        outlet.put("input", 1)
        outlet.give_up_at(time.monotonic() + 0.1)
        with pytest.raises(TimeoutError, match="'input'"):
            [outlet.put("input", 1) for _ in range(3)]  # there is room for one
        with pytest.raises(TimeoutError):
            outlet.put("other", 1)


def test_an_error_comes_after_what_was_put(inlet: Inlet) -> None:
    with Outlet(inlet.path) as outlet:
        outlet.put("input", 1)
        outlet.fail("input", ValueError("partition 3 is broken"))
    assert inlet.get("input") == 1
    with pytest.raises(ValueError, match="partition 3 is broken"):
        inlet.get("input")


def test_results_are_fetched_as_they_come(inlet: Inlet) -> None:
    def ask() -> tuple[list[int], list[int]]:
        with Outlet(inlet.path) as outlet:
            return outlet.take("output", 2), outlet.take("output", 10)

    with ThreadPoolExecutor() as pool:
        asked = pool.submit(ask)
        for n in range(3):
            inlet.give("output", n)
        inlet.end_results("output")
        assert asked.result() == ([0, 1], [2])


def test_an_outlet_left_by_an_exception_fails_its_queue(inlet: Inlet) -> None:
    outlet = Outlet(inlet.path)
    outlet.put("input", 1)
    outlet.__exit__(KeyError, KeyError(), None)
    assert inlet.get("input") == 1
    with pytest.raises(ConnectionError, match="'input'"):
        inlet.get("input")


_RUNS_OUT = """
import os, resource, socket, sys
from pathlib import Path
from jupyter_dtf.backend.machine.feed_outlet import Outlet
from jupyter_dtf.backend.task.feed import inlet as module
seen = module.threading.Event()
module.logger.addFilter(lambda record: seen.set() or True)
inlet = module.Inlet(Path(sys.argv[1]))
heard = socket.socket(socket.AF_UNIX)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
taken = []
try:
    while True:
        taken.append(os.dup(0))
except OSError:
    heard.connect(sys.argv[1])
seen.wait()
for each in taken:
    os.close(each)
with Outlet(inlet.path, 60) as outlet:
    print(outlet.put("input", 1), inlet.get("input"))
"""


def test_an_inlet_that_has_run_out_of_descriptors_hears_others_afterwards(tmp_path: Path) -> None:
    path = str(tmp_path / "feed" / "worker-1.feed")
    said = subprocess.run([sys.executable, "-c", _RUNS_OUT, path], capture_output=True, text=True, check=False)
    assert said.stdout == "True 1\n", said.stderr
    assert "Too many open files" in said.stderr


_PUSHES = """
import sys
from jupyter_dtf.backend.machine.feed_outlet import Outlet
outlet = Outlet(sys.argv[1])
outlet.put("input", 1)
print("put", flush=True)
outlet.take("never", 1)
"""

_TAKES = """
import sys
from pathlib import Path
from jupyter_dtf.backend.task.feed.inlet import Inlet
inlet = Inlet(Path(sys.argv[1]))
print("listens", flush=True)
inlet.get("never")
"""


def test_a_pusher_that_is_killed_is_seen_in_the_task(inlet: Inlet) -> None:
    with subprocess.Popen([sys.executable, "-c", _PUSHES, str(inlet.path)], stdout=subprocess.PIPE) as pusher:
        assert inlet.get("input") == 1
        os.kill(pusher.pid, signal.SIGKILL)
        with pytest.raises(ConnectionError):
            inlet.get("input")


def test_a_task_that_is_killed_is_seen_by_its_pushers(tmp_path: Path) -> None:
    path = tmp_path / ("long" * 30) / "worker-0.feed"  # longer than a socket's path may be
    with subprocess.Popen([sys.executable, "-c", _TAKES, str(path)], stdout=subprocess.PIPE) as task:
        assert task.stdout is not None
        task.stdout.readline()
        outlet = Outlet(path)
        with ThreadPoolExecutor() as pool:
            waiting = pool.submit(outlet.take, "output", 1)
            patience.until(waiting.running, "the request")
            os.kill(task.pid, signal.SIGKILL)
            with pytest.raises(ConnectionError, match="is gone"):
                waiting.result()
    with pytest.raises(ConnectionError, match="is gone"):
        outlet.put("input", 1)
    with pytest.raises(ConnectionError, match="No task accepts a feed"):
        Outlet(path)
