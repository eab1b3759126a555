"""Tests of how a run's changes arrive: at a slow reader, every state, but only the newest figures; in order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

import jupyter_dtf as dtf
from jupyter_dtf.backend.records.hub import Hub
from jupyter_dtf.client.run_changes import RunChanges
from jupyter_dtf.errors import NotFound
from jupyter_dtf.schema.events import Progressed, RunChanged, encode_event
from jupyter_dtf.schema.run import Progress, RunInfo, RunState

from ..backend.records.run_events import T0, encoded, run_info, short_run
from ..patience import left_s


def given(hub: Hub, seq: int, state: RunState) -> None:
    hub.apply("r1", seq, encode_event(RunChanged(time=T0, state=state)))


def meanwhile(work: Callable[[], object]) -> threading.Thread:
    """Do work in another thread, and wait until it is done, or certainly waits for a lock of this thread."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(0.2)
    return thread


class Overtaken(Hub):
    """A hub that changes, in another thread, while a summary that has been read is on its way to the reader."""

    def __init__(self) -> None:
        super().__init__()
        self.change: Callable[[], object] | None = None
        self.other = threading.Thread()

    def current(self, run_id: str) -> RunInfo:
        found = super().current(run_id)
        if (change := self.change) is not None:
            self.change = None
            self.other = meanwhile(change)
        return found


def test_states_are_kept_and_of_figures_the_newest() -> None:
    hub = Hub()
    hub.add_run(run_info())
    with RunChanges(hub, "r1") as changes:
        seen = [changes.take(None)]
        for seq, data in encoded(short_run()):
            hub.apply("r1", seq, data)
        while (info := seen[-1]) is not None and not info.state.is_final:
            seen.append(changes.take(None))
    states = [info.state for info in seen if info is not None]
    assert states == sorted(states, key=list(RunState).index)
    assert {RunState.PENDING, RunState.LAUNCHING, RunState.RUNNING, RunState.SUCCEEDED} == set(states)
    assert len(states) < len(short_run())
    assert seen[-1] == hub.info("r1")


def test_an_unknown_run_is_an_error_of_the_reader() -> None:
    with RunChanges(Hub(), "r9") as changes, pytest.raises(NotFound):
        changes.take(None)


def test_a_condition_slower_than_the_changes_does_not_outlast_the_time() -> None:
    """The timeout also applies while changes arrive faster than the condition is evaluated."""
    hub = Hub()
    hub.add_run(run_info())
    events = iter(encoded(short_run()))
    run = run_of(hub)
    asked = []

    def condition(info: Any) -> bool:
        for _ in range(2):  # two changes arrive during each evaluation
            if (event := next(events, None)) is not None:
                hub.apply("r1", *event)
        asked.append(info.next_seq)
        time.sleep(0.02)
        return False

    with pytest.raises(TimeoutError, match="the condition does not hold after 0.05 s"):
        run.wait_for(condition, 0.05)
    assert 1 <= len(asked) <= 3


def test_the_newest_figures_come_last() -> None:
    hub = Overtaken()
    hub.add_run(run_info())
    figures = encode_event(Progressed(time=T0, progress=Progress(done=100)))
    hub.change = lambda: hub.apply("r1", 0, figures)
    with RunChanges(hub, "r1") as changes:
        hub.other.join(left_s())
        seen = changes.take(None)
        assert seen is not None and seen.progress.done == 100


def test_a_state_is_told_once_and_after_those_before_it() -> None:
    hub, told = Overtaken(), list[RunState]()
    hub.add_run(run_info())
    given(hub, 0, RunState.RUNNING)
    hub.change = lambda: given(hub, 1, RunState.SUCCEEDED)
    run_of(hub).on_state(told.append)
    hub.other.join(left_s())
    assert told == [RunState.RUNNING, RunState.SUCCEEDED]
    assert not hub._subscribers


def test_the_first_state_is_told_even_if_it_is_the_first_of_all() -> None:
    hub, told = Hub(), list[RunState]()
    hub.add_run(run_info())
    run_of(hub).on_state(told.append)
    assert told == [RunState.PENDING]
    given(hub, 0, RunState.STOPPED)
    assert told == [RunState.PENDING, RunState.STOPPED]


def test_a_run_that_ends_while_it_is_subscribed_to_is_let_go() -> None:
    class Quick(Hub):
        def subscribe(self, callback: Callable[[str], object]) -> Callable[[], None]:
            unsubscribe = super().subscribe(callback)
            given(self, 0, RunState.SUCCEEDED)
            return unsubscribe

    hub, told = Quick(), list[RunState]()
    hub.add_run(run_info())
    run_of(hub).on_state(told.append)
    assert told == [RunState.SUCCEEDED]
    assert not hub._subscribers


def test_states_are_told_one_at_a_time_and_the_last_one_even_after_an_error() -> None:
    hub, told = Hub(), list[str]()
    hub.add_run(run_info())

    def tell(state: RunState) -> None:
        told.append(f"{state.value} begins")
        if state is RunState.PENDING:
            meanwhile(lambda: given(hub, 0, RunState.FAILED)).join(left_s())
        told.append(f"{state.value} ends")
        if state is RunState.PENDING:
            raise ValueError("of the caller")

    with pytest.raises(ValueError, match="of the caller"):
        run_of(hub).on_state(tell)
    assert told == ["pending begins", "pending ends", "failed begins", "failed ends"]
    assert not hub._subscribers


def test_states_of_an_unknown_run_are_an_error() -> None:
    hub = Hub()
    with pytest.raises(NotFound):
        run_of(hub).on_state(lambda state: None)
    assert not hub._subscribers


def run_of(hub: Hub) -> dtf.Run:
    return dtf.Run("r1", in_session=cast(Any, SimpleNamespace(hub=hub)))
