"""Tests of starting clusters in a session, possibly before it has found existing ones, and of closing it."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import jupyter_dtf as dtf
from jupyter_dtf.backend.viewer import connections, starting
from jupyter_dtf.backend.viewer.fleet import Fleet
from jupyter_dtf.backend.viewer.starting import StartedCluster
from jupyter_dtf.client import session as session_module
from jupyter_dtf.client.session import Session, session
from jupyter_dtf.errors import Unavailable
from jupyter_dtf.schema.cluster_request import ClusterRequest

from ..patience import left_s, until


@pytest.fixture(autouse=True)
def own_session() -> Iterator[None]:
    yield
    session().close()


def test_a_cluster_starts_while_others_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    others_have_answered = threading.Event()
    real = Fleet.start

    async def start(fleet: Fleet) -> None:
        await asyncio.to_thread(others_have_answered.wait)
        await real(fleet)

    monkeypatch.setattr(Fleet, "start", start)
    cluster = dtf.Cluster(jobs=1, name="soon")
    assert not others_have_answered.is_set()
    for seconds in (0, 0.1):
        with pytest.raises(TimeoutError, match=f"The cluster soon is not ready after {seconds} s"):
            cluster.wait_ready(seconds)
    others_have_answered.set()
    assert cluster.wait_ready(left_s()).status == "running"
    cluster.wait_ready(0)
    cluster.close()


def test_a_start_that_is_interrupted_leaves_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted, started = threading.Event(), threading.Event()
    real = starting.start

    def start(request: ClusterRequest) -> StartedCluster:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        interrupted.wait()
        found = real(request)
        started.set()
        return found

    monkeypatch.setattr(starting, "start", start)
    with pytest.raises(KeyboardInterrupt):
        dtf.Cluster(jobs=1, name="unwanted")
    interrupted.set()
    assert started.wait(left_s())
    until(lambda: not connections.read_all(), "the end of the cluster that nobody holds")


def test_what_outlives_the_session_says_so() -> None:
    cluster = dtf.Cluster(jobs=1, name="stays")
    cluster.wait_ready(left_s())
    session().close()
    with pytest.raises(Unavailable, match="was closed"):
        _ = cluster.status
    again = dtf.connect("stays")  # in a new session
    assert again.status == "running"
    again.close()


def test_who_waits_for_an_answer_is_told_that_the_session_was_closed() -> None:
    asked = threading.Event()

    async def never(_fleet: Fleet) -> None:
        asked.set()
        await asyncio.Event().wait()

    own = Session()
    begun = own.begin(never)
    assert asked.wait(left_s())
    asked.clear()
    with ThreadPoolExecutor(1) as other:
        answer = other.submit(own.call, never)
        assert asked.wait(left_s())
        own.close()
        for each in (begun, answer):
            with pytest.raises(Unavailable, match="was closed"):
                each.result(left_s())
    with pytest.raises(Unavailable, match="was closed"):
        own.begin(never)


def test_a_session_that_is_closed_while_it_starts_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = threading.Event()

    async def start(_fleet: Fleet) -> None:
        starts.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(Fleet, "start", start)
    monkeypatch.setattr("jupyter_dtf.client.session.END_S", 0.1)
    own = Session()
    assert starts.wait(left_s())
    with ThreadPoolExecutor(1) as other:
        answer = other.submit(own.do, lambda fleet: None)
        until(lambda: own._requests, "the request")
        own.close()
        with pytest.raises(Unavailable, match="was closed"):
            answer.result(left_s())
    own._thread.join(left_s())
    assert own.is_closed


def test_the_session_is_not_forgotten_while_another_thread_looks_it_up(monkeypatch: pytest.MonkeyPatch) -> None:
    current = session()
    within: list[Session | None] = []

    class Lock:
        def __enter__(self) -> None:
            within.append(session_module._session)

        def __exit__(self, *error: object) -> None:
            within.append(session_module._session)

    monkeypatch.setattr(session_module, "_lock", Lock())
    current.close()
    assert within == [current, None]
