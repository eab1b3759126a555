"""Checks that a cluster of any kind releases its hosts while nothing runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

import jupyter_dtf as dtf
from jupyter_dtf.client.session import session
from jupyter_dtf.schema.events import Note
from tests.python.clusters import wait_for


def rests_and_wakes(kind: str, options: Mapping[str, Any], given_back: Callable[[], None]) -> None:
    """Check that a cluster of two hosts is scaled down to one while it is idle, and has both again for the next run.
    ``given_back()`` waits until a host has been released.
    """
    with dtf.Cluster(backend=kind, jobs={"worker": 2}, **options, idle_minutes=0.01, least_hosts=1) as cluster:
        assert cluster.run(where).result() == ["worker:0", "worker:1"]
        info = wait_for(cluster, lambda info: len(info.hosts) == 1 and not info.coming)
        given_back()
        assert info.notes == [
            "The cluster has released its hosts because nothing was running. The next run requests them again and waits"
        ]
        with pytest.raises(dtf.Unavailable, match="released its hosts because nothing was running"):
            cluster.spec  # noqa: B018

        run = cluster.run(where)
        assert run.result() == ["worker:0", "worker:1"]
        told = {event.title: event.text for _seq, event in session().hub.events(run.id) if isinstance(event, Note)}
        assert told["Waiting for hosts"].endswith(
            "released its hosts because nothing was running, and requests them again"
        )
        assert told["All hosts have joined"].startswith("After ")


def where(_args: Any, ctx: Any) -> str:
    return f"{ctx.job_name}:{ctx.task_index}"
