"""Tests of what a slow reader of a run's changes gets: every state, but only the newest figures."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

import jupyter_dtf as dtf
from jupyter_dtf.backend.records.hub import Hub
from jupyter_dtf.client.run_changes import RunChanges
from jupyter_dtf.errors import NotFound
from jupyter_dtf.schema.run import RunState

from ..backend.records.run_events import encoded, run_info, short_run


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
    run = dtf.Run("r1", in_session=cast(Any, SimpleNamespace(hub=hub)))
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
