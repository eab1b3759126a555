"""Which tasks are considered frozen rather than slow, mostly tested with simulated readings of processes."""

from __future__ import annotations

import math
import os
import signal
import subprocess

import psutil
import pytest

from jupyter_dtf.backend.host.task_watch import LOOK_S, SILENT_S, STOPPED_S, Gaps, Seen, Steps, TaskWatch
from jupyter_dtf.backend.machine.processes import has_children, is_traced, stat_of

from ... import patience

SLEEPS = Seen("S", False, 1.0)


class Watched:
    """A task that is checked every ``LOOK_S`` seconds."""

    def __init__(self) -> None:
        self.now = 100.0
        self.watch = TaskWatch(self.now)

    def looks(self, seconds: float, seen: Seen = SLEEPS, beats: int = 0, *, cpu: float = 0.0) -> str:
        """Return what is found within ``seconds``, in which the task uses ``cpu`` cores."""
        why = ""
        for _ in range(round(seconds / LOOK_S)):
            self.now += LOOK_S
            seen = seen._replace(cpu_s=seen.cpu_s + cpu * LOOK_S)
            why = self.watch.look(self.now, seen, beats)
            if why:
                break
        return why


def test_a_stopped_task_is_frozen_after_a_moment() -> None:
    watched = Watched()
    assert watched.looks(10, beats=20) == ""
    assert watched.looks(STOPPED_S, SLEEPS._replace(state="T"), 20) == ""
    assert watched.looks(LOOK_S, SLEEPS._replace(state="T"), 20) == "has been stopped (SIGSTOP) for 3 s"
    assert STOPPED_S + 2 * LOOK_S < 5


def test_one_that_goes_on_in_time_is_not() -> None:
    watched = Watched()
    for _ in range(5):
        assert watched.looks(STOPPED_S - LOOK_S, SLEEPS._replace(state="T")) == ""
        assert watched.looks(LOOK_S, beats=1) == ""


@pytest.mark.parametrize("state", ["T", "t", "S"])
def test_what_a_debugger_holds_is_not_frozen(state: str) -> None:
    assert Watched().looks(10 * SILENT_S, Seen(state, True, 1.0)) == ""


def test_a_first_step_that_compiles_with_the_interpreter_in_its_hands_is_not_frozen() -> None:
    assert Watched().looks(10 * SILENT_S, Seen("R", False, 0.0), cpu=1.0) == ""
    assert Watched().looks(10 * SILENT_S, Seen("R", False, 0.0), cpu=0.02) == "", "of a machine that many share"


def test_a_task_that_beats_is_not_frozen_however_long_it_waits() -> None:
    watched = Watched()
    for beats in range(1000):
        assert watched.looks(LOOK_S, beats=beats) == ""


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ("S", "has not responded for 1m 00s and uses no CPU time"),
        ("D", "has been waiting for a device or a file system for 1m 00s and does not respond"),
    ],
)
def test_one_that_neither_beats_nor_computes_is_frozen_after_a_minute(state: str, why: str) -> None:
    watched = Watched()
    watched.looks(LOOK_S, beats=9)
    assert watched.looks(SILENT_S - LOOK_S, Seen(state, False, 1.0), 9) == ""
    assert watched.looks(2 * LOOK_S, Seen(state, False, 1.0), 9) == why


def test_a_program_that_has_taken_the_place_of_this_one_has_no_pulse() -> None:
    watch = TaskWatch(0.0)
    assert not any(watch.look(float(now), SLEEPS, 3, can_beat=False) for now in range(1000))


def test_what_was_before_a_sleep_does_not_count() -> None:
    watched = Watched()
    stopped = SLEEPS._replace(state="T")
    assert watched.looks(STOPPED_S, stopped) == ""
    watched.now += 3600
    watched.watch.unseen(watched.now, math.inf)
    assert watched.looks(STOPPED_S, stopped) == ""
    assert watched.looks(2 * LOOK_S, stopped) != ""


@pytest.mark.parametrize(("state", "limit_s"), [("T", STOPPED_S), ("S", SILENT_S)])
def test_a_host_that_is_held_up_again_and_again_notices_all_the_same(state: str, limit_s: float) -> None:
    """On an overloaded machine, unobserved time does not count, but each observation does."""
    watched, gaps = Watched(), Gaps(100.0, 100.0)
    frozen = Seen(state, False, 1.0)
    watched.looks(LOOK_S, frozen)
    gaps.look(watched.now, watched.now)
    looks = 0
    while True:
        watched.now += 5.0
        looks += 1
        watched.watch.unseen(watched.now, gaps.look(watched.now, watched.now))
        if watched.watch.look(watched.now, frozen, 0):
            break
    assert limit_s / LOOK_S <= looks <= limit_s / LOOK_S + 2


def test_time_that_nobody_saw_is_no_time_without_a_step() -> None:
    steps = Steps(0.0)
    steps.look(LOOK_S, 1, 0.0)
    steps.unseen(100.0, 99.0)
    assert steps.quiet_s(100.0) == 100.0 - LOOK_S - 99.0
    steps.unseen(200.0, math.inf)
    assert steps.quiet_s(200.0) == 0


def test_a_machine_that_slept_and_a_host_that_was_held_up_have_gaps() -> None:
    gaps = Gaps(10.0, 50.0)
    assert gaps.look(10.5, 50.5) == 0
    assert gaps.look(11.0, 3651.0) == math.inf, "the machine slept: one clock went on and the other stood still"
    assert gaps.look(11.5, 3651.5) == 0
    assert gaps.look(20.0, 3660.0) == 8.5 - LOOK_S, "nobody could look"
    assert gaps.look(20.5, 3660.5) == 0


def test_the_kernel_says_what_is_stopped_and_what_has_computed() -> None:
    process = subprocess.Popen(["sh", "-c", "while :; do :; done"])
    try:
        patience.until(lambda: (stat := stat_of(process.pid)) is not None and stat.cpu_s > 0.05, "it computes")
        os.kill(process.pid, signal.SIGSTOP)
        patience.until(lambda: (stat := stat_of(process.pid)) is not None and stat.state == "T", "it is stopped")
        assert not is_traced(process.pid)
    finally:
        process.kill()
        process.wait()
    assert not is_traced(2**22 + 1)


def test_a_task_is_quiet_while_it_makes_no_step_says_nothing_and_computes_nothing() -> None:
    steps = Steps(0.0)
    now = cpu_s = 0.0

    def looks(seconds: float, count: int, cores: float = 0.0) -> float:
        nonlocal now, cpu_s
        for _ in range(round(seconds / LOOK_S)):
            now += LOOK_S
            cpu_s += cores * LOOK_S
            steps.look(now, count, cpu_s)
        return steps.quiet_s(now)

    assert looks(60, 0, cores=1.0) < 2 * LOOK_S, "it compiles"
    assert looks(5, 0) >= 4
    assert looks(LOOK_S, 1) == 0
    assert (steps.count, steps.longest_s) == (1, 0.0), "what was before the first step is no time between two"
    assert looks(10, 1) == 10
    looks(LOOK_S, 2)
    assert (steps.count, steps.longest_s) == (2, 10.5)
    assert looks(20, 2, cores=0.05) == 20, "so much takes waiting"
    steps.word(now)
    assert steps.quiet_s(now) == 0
    steps.word(now - 5)
    assert steps.quiet_s(now) == 0


def test_the_kernel_says_which_processes_have_children() -> None:
    assert not has_children(2**22 + 1)
    process = subprocess.Popen(["sh", "-c", "sleep 60 & wait"])
    try:
        patience.until(lambda: has_children(process.pid), "its child")
        assert has_children(os.getpid())
    finally:
        for child in psutil.Process(process.pid).children():
            child.kill()
        process.wait()
