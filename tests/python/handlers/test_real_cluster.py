"""Tests of the server with a real fleet: a cluster is started, watched and stopped by routes and the WebSocket."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import cloudpickle
import numpy as np

import jupyter_dtf as dtf
from jupyter_dtf.backend.machine import cluster_processes
from jupyter_dtf.backend.viewer.fleet import Fleet
from jupyter_dtf.handlers.services import Services
from jupyter_dtf.schema import payload
from jupyter_dtf.schema.run import RunRequest

from ..patience import LOOK_EVERY_S, left_s
from .conftest import Api

cloudpickle.register_pickle_by_value(sys.modules[__name__])

POINTS = 50


def report_until_stopped(ctx: Any) -> None:
    for step in range(POINTS):
        ctx.report(step=step, loss=1.0 / (1 + step) + ctx.rank)
    dtf.report_histogram("weights", [0.0, 1.0, float("nan")], bins=2)
    ctx.report_image("input", np.full((4, 6), ctx.rank / 2), step=7, caption="grey")
    ctx.report_text("sample", f"from {ctx.rank}")
    dtf.report_table("worst", {"rank": [ctx.rank]})
    print("reported", flush=True)
    ctx.stop_requested.wait()


class Watch:
    """A record of what the WebSocket has sent."""

    def __init__(self, socket: Any) -> None:
        self.socket = socket
        self.clusters: dict[str, Any] = {}
        self.runs: dict[str, Any] = {}
        self.events: list[dict[str, Any]] = []
        self.lines: dict[tuple[str, str], tuple[list[Any], list[Any]]] = {}
        self.errors: list[str] = []

    async def until(self, condition: Callable[[], Any]) -> None:
        while not condition():
            data = await asyncio.wait_for(self.socket.read_message(), left_s())
            assert data is not None, "closed"
            self._follow(json.loads(data))

    def _follow(self, message: dict[str, Any]) -> None:
        match message["type"]:
            case "clusters":
                self.clusters = {cluster["name"]: cluster for cluster in message["clusters"]}
            case "runs":
                self.runs.update({run["id"]: run for run in message["runs"]})
            case "events":
                self.events += message["events"]
            case "series":
                for frame in message["frames"]:
                    x, y = self.lines.setdefault((frame["metric"], frame["task"]), ([], []))
                    x[frame["start"] :], y[frame["start"] :] = frame["x"], frame["y"]
            case "error":
                self.errors.append(message["message"])


async def test_a_run_from_the_panel_to_the_plot(
    api: Api, services: Services, connect: Callable[[], Awaitable[Any]], monkeypatch: Any
) -> None:
    assert await api("GET", "clusters") == []
    watch = Watch(await connect())
    started = await api("POST", "clusters", body={"name": "real", "jobs": {"worker": 2}})
    assert (started["name"], started["state"]) == ("real", "starting")
    await watch.until(lambda: watch.clusters.get("real", {}).get("state") == "running")
    assert (await api.refused(409, "POST", "clusters", body={"name": "real"}))["error"] == "Conflict"

    fleet = await services.fleet()
    assert isinstance(fleet, Fleet)
    await fleet.ready("real")
    run = await fleet.submit("real", RunRequest(name="points"), payload.pack((report_until_stopped, (), {})))
    await watch.socket.write_message(json.dumps({"type": "subscribe", "run": run.id}))
    tasks = ("worker:0", "worker:1")
    await watch.until(lambda: all(len(watch.lines.get(("loss", task), ([],))[0]) == POINTS for task in tasks))
    await watch.until(lambda: watch.runs.get(run.id, {}).get("state") == "running")
    assert watch.lines["loss", "worker:1"][0] == list(range(POINTS))
    await watch.until(lambda: len(watch.lines.get(("loss", ""), ([],))[0]) == POINTS)
    assert watch.lines["loss", ""][1][0] == 1.5
    assert [info["id"] for info in await api("GET", "runs")] == [run.id]
    assert (await api.refused(409, "DELETE", "runs", run.id))["error"] == "Conflict"

    await api("POST", "runs", run.id, "stop", body={})
    await watch.until(lambda: watch.runs[run.id]["state"] == "stopped")
    await watch.until(lambda: watch.events[-1:] and watch.events[-1].get("state") == "stopped")
    seqs = [event["seq"] for event in watch.events]
    assert seqs == sorted(set(seqs))
    assert {event["task"] for event in watch.events if event["type"] == "log"} == set(tasks)
    assert (await api.refused(409, "POST", "runs", run.id, "stop"))["error"] == "Conflict"
    table = await api("GET", "runs", run.id, "metrics.csv")
    assert sum(row.startswith("loss,") for row in table.splitlines()) == 2 * POINTS
    shown = {(one["kind"], one["name"], one["task"]): one["steps"] for one in await api("GET", "runs", run.id, "media")}
    assert shown == {
        (*what, task): [step]
        for what, step in (
            (("histogram", "weights"), POINTS - 1),
            (("image", "input"), 7),
            (("table", "worst"), POINTS - 1),
            (("text", "sample"), POINTS - 1),
        )
        for task in tasks
    }

    while not (machines := await api("GET", "clusters", "real", "machines")):  # a host reads them every two seconds
        await asyncio.sleep(LOOK_EVERY_S)
    assert {"cpu", "machine_memory_bytes"} <= {series["metric"] for series in machines}

    await api("DELETE", "clusters", "real")
    await watch.until(lambda: "real" not in watch.clusters)
    assert await api("GET", "clusters") == []
    assert watch.errors == []

    await services.stop()  # a restarted server reads the run from the store
    past = await api("GET", "runs", run.id)
    assert (past["state"], past["latest"]["loss"]) == ("stopped", 0.5 + 1 / POINTS)
    message = await api("GET", "runs", run.id, "events")
    assert [event["seq"] for event in message["events"]] == seqs
    (histogram,) = await api("GET", "runs", run.id, "histograms", name="weights", task="worker:1")
    assert (histogram["counts"], histogram["not_a_number"], histogram["step"]) == ([1, 1], 1, POINTS - 1)
    image = await api("GET", "runs", run.id, "image", name="input", task="worker:1")
    assert (image["width"], image["height"], image["caption"]) == (6, 4, "grey")


async def test_a_frozen_cluster_is_shown_as_such_and_shut_down(
    api: Api, services: Services, connect: Callable[[], Awaitable[Any]]
) -> None:
    watch = Watch(await connect())
    await api("POST", "clusters", body={"name": "ice", "jobs": {"worker": 1}, "keep": True})
    await watch.until(lambda: watch.clusters.get("ice", {}).get("state") == "running")
    connection = (await services.fleet()).connection("ice")
    os.kill(connection.pid, signal.SIGSTOP)
    await watch.until(lambda: watch.clusters["ice"]["silent_s"] > 0)
    assert watch.clusters["ice"]["state"] == "running"
    refused = await api.refused(503, "PATCH", "clusters", "ice", body={"jobs": {"worker": 2}})
    assert refused["error"] == "ClusterLost"
    assert "`jupyter dtf stop ice`" in refused["message"]
    await api("DELETE", "clusters", "ice")
    await watch.until(lambda: "ice" not in watch.clusters)
    assert list(cluster_processes.members(connection.token)) == []
    assert not any(map(os.path.exists, connection.directories))
