"""Detection of stragglers from the tasks' progress and waiting times."""

from __future__ import annotations

import pytest

from jupyter_dtf.backend.cluster.active_run import Run
from jupyter_dtf.backend.cluster.stragglers import IN_A_ROW, WINDOW_S, Stragglers, Word
from jupyter_dtf.backend.planning.launch_plan import HostSlot, plan
from jupyter_dtf.schema.events import TaskChanged
from jupyter_dtf.schema.launch import Pace, TaskResult
from jupyter_dtf.schema.restart import Restart
from jupyter_dtf.schema.run import RunInfo, RunRequest, RunState, TaskState

A, B, C = "tls://a:1", "tls://b:1", "tls://c:1"
HOSTS = {"worker:0": A, "worker:1": B, "worker:2": C}
EVEN = {"worker:0": 0.1, "worker:1": 0.1, "worker:2": 0.1}
UNEVEN = {**EVEN, "worker:2": 0.31}


class Gang:
    """A run of three synchronous tasks: each step takes as long as the slowest task, and the others wait for it."""

    def __init__(self) -> None:
        request = RunRequest(kind="fit", restart=Restart())
        self.run = Run(RunInfo(id="r", name="r", cluster="c"), request, lambda *_: None, lambda _: None)
        slots = [HostSlot(address, address[6], address[6], 1) for address in (A, B, C)]
        self.run.place(plan({"worker": 3}, slots))
        self.run.to(RunState.LAUNCHING)
        self.all_run()
        self.stragglers = Stragglers()
        self.step, self.now = 0.0, 100.0
        self.waited = dict.fromkeys(HOSTS, 0.0)

    def all_run(self) -> None:
        for task in HOSTS:
            self.run._task_changed(TaskChanged(time=1.0, task=task, attempt=self.run.attempt, state=TaskState.RUNNING))

    def windows(self, count: int, own_s: dict[str, float], waits: bool = True) -> list[Word]:
        """Simulate windows in which each task takes ``own_s`` for its part of a step, and return what is reported."""
        words = []
        for _ in range(count):
            steps, slowest = 0, max(own_s.values())
            while steps * slowest < WINDOW_S or steps < 10:
                steps += 1
            self.step += steps
            self.now += steps * slowest
            for task, own in own_s.items():
                self.waited[task] += steps * (slowest - own) * waits
                id_ = f"r/{task}" + f"/{self.run.attempt}" * bool(self.run.attempt)
                self.stragglers.tells(HOSTS[task], [Pace(id_, self.step, self.now, self.waited[task])])
            words += self.stragglers.look(self.run)
            assert self.stragglers.look(self.run) == []  # there are no new reports
        return words


def test_a_straggler_is_named_once_and_when_it_is_none_any_more() -> None:
    gang = Gang()
    assert gang.windows(5, EVEN) == []
    assert gang.windows(IN_A_ROW - 1, UNEVEN) == []
    (word,) = gang.windows(10, UNEVEN)
    assert word.title == "worker:2 takes 3.1 times as long for its part of a step as the others, on host c"
    assert word.text == "310 ms for its own part of a step; the others' median is 100 ms. On host c"
    assert (word.level, word.task, word.mark) == ("warning", "worker:2", "slow")
    assert gang.windows(IN_A_ROW - 1, EVEN) == []
    assert gang.windows(10, {**EVEN, "worker:2": 0.17}) == []  # neither slow nor as fast as the others
    (word,) = gang.windows(10, EVEN)
    assert (word.level, word.title, word.mark) == ("info", "worker:2 is as fast as the others again", "as fast again")
    (word,) = gang.windows(10, UNEVEN)
    assert word.level == "warning"


@pytest.mark.parametrize("own_s", [{**EVEN, "worker:2": 0.18}, {"worker:0": 0.3, "worker:1": 0.3, "worker:2": 0.1}])
def test_a_little_slower_is_not_slow_and_neither_are_all_but_one(own_s: dict[str, float]) -> None:
    assert Gang().windows(10, own_s) == []


def test_where_nobody_waits_for_anybody_nobody_is_slow() -> None:
    assert Gang().windows(10, UNEVEN, waits=False) == []


def test_one_slow_window_is_nothing() -> None:
    gang = Gang()
    for _ in range(5):
        assert gang.windows(IN_A_ROW - 1, UNEVEN) == []
        assert gang.windows(1, EVEN) == []


def test_a_later_attempt_begins_anew_and_hosts_that_are_gone_say_nothing() -> None:
    gang = Gang()
    gang.windows(1, EVEN)
    assert len(gang.windows(10, UNEVEN)) == 1
    gang.run.task_ended(TaskResult(task="worker:1", signal="SIGKILL"))
    gang.run.to(RunState.RESTARTING)
    assert gang.stragglers.look(gang.run) == []
    gang.run.place_again(gang.run.planned)
    gang.all_run()
    assert gang.windows(IN_A_ROW, UNEVEN) == []
    assert [word.level for word in gang.windows(3, UNEVEN)] == ["warning"]
    for address in (A, B, C):
        gang.stragglers.gone(address)
    assert gang.stragglers.look(gang.run) == []
