"""Tests of starting clusters in a session, possibly before it has found existing ones, and of closing it."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator

import pytest

import jupyter_dtf as dtf
from jupyter_dtf.backend.viewer import connections, starting
from jupyter_dtf.backend.viewer.fleet import Fleet
from jupyter_dtf.backend.viewer.starting import StartedCluster
from jupyter_dtf.client.session import session
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
