"""Tests of what a cluster's ipywidget leaves behind when the session does not answer, without a cluster."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jupyter_dtf.backend.records.hub import Hub
from jupyter_dtf.errors import Unavailable
from jupyter_dtf.notebook.cluster_widget import ClusterWidget


class Closed:
    """A session that is closed while it is asked."""

    is_closed = False

    def __init__(self) -> None:
        self.hub = Hub()
        self.closes_at_once = True

    def do(self, work: Any) -> Any:
        if self.closes_at_once:
            raise Unavailable("The session was closed")
        return work(SimpleNamespace(subscribe=lambda callback: lambda: None))

    def begin(self, work: Any) -> Any:
        raise Unavailable("The session was closed")


def following(view: Closed) -> ClusterWidget:
    """Return the part of a widget that subscribes."""
    widget = ClusterWidget.__new__(ClusterWidget)
    widget._session, widget._hub, widget._changed = cast(Any, view), view.hub, threading.Event()
    return widget


def test_a_subscription_that_fails_leaves_none() -> None:
    view = Closed()
    with pytest.raises(Unavailable):
        following(view)._subscribe()
    assert not view.hub._subscribers


def test_a_session_that_is_closed_meanwhile_is_left_without_an_error() -> None:
    view = Closed()
    view.closes_at_once = False
    leave = following(view)._subscribe()
    assert len(view.hub._subscribers) == 1
    leave()
    assert not view.hub._subscribers
