"""Viewers of a cluster are sent all events in pieces, however many there are and however slow the viewers are."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from distributed import Scheduler
from distributed.comm import connect

from jupyter_dtf.backend.cluster.controller import Controller
from jupyter_dtf.backend.cluster.settings import ControllerSettings
from jupyter_dtf.backend.cluster.viewer_streams import MOST_MESSAGES
from jupyter_dtf.backend.machine.visibility_mark import Mark
from jupyter_dtf.backend.records.media_tail import MOST_BYTES, NOT_KEPT
from jupyter_dtf.backend.records.run_record import RunRecord
from jupyter_dtf.schema import protocol
from jupyter_dtf.schema.base import convert, to_plain
from jupyter_dtf.schema.cluster_request import ClusterRequest
from jupyter_dtf.schema.events import Note, Picture, encode_event
from jupyter_dtf.schema.run import RunDescriptor, RunInfo, RunRequest, RunState

from ...patience import left_s

SPEECH = to_plain(protocol.ours())
EVENTS = 120_000


def settings(tmp_path: Path) -> ControllerSettings:
    request = ClusterRequest(name="long", jobs={"worker": 1}, keep=True)
    return ControllerSettings(request=request, token="0", runs=Mark.of(tmp_path), created=time.time())


async def _attach(scheduler: Scheduler, role: str = "viewer", after: dict[str, int] | None = None) -> Any:
    comm = await connect(scheduler.address)
    await comm.write({"op": "dtf_attach", "role": role, "after": after or {}, "speech": SPEECH, "reply": False})
    assert [message["op"] for message in await asyncio.wait_for(comm.read(), left_s())] == ["speech"]
    return comm


async def _told(comm: Any, until: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
    """Return the messages of a stream, except those about the cluster, once they satisfy ``until``."""
    told: list[dict[str, Any]] = []
    while not until(told):
        told += [m for m in await asyncio.wait_for(comm.read(), left_s()) if m["op"] not in ("cluster", "pong")]
    return told


def test_a_run_is_described_once_and_then_there_are_events_alone(tmp_path: Path) -> None:
    """Its state is not announced in addition, because viewers would have to decide which message to believe."""

    async def follow() -> None:
        async with Scheduler(port=0, dashboard_address=":0") as scheduler:
            controller = Controller(settings(tmp_path))
            await controller.start(scheduler)
            early = await _attach(scheduler)
            await _told(early, lambda told: any(m["op"] == "attached" for m in told))
            descriptor = RunDescriptor(id="r", name="r", cluster="long", jobs={"worker": 1})
            run = controller.runs.add(descriptor, RunRequest())
            controller.viewers.tell_run(run)
            for state in (RunState.LAUNCHING, RunState.RUNNING, RunState.STOPPING, RunState.STOPPED):
                run.to(state)
            run.note("info", "afterwards")
            told = await _told(early, lambda told: len(told) >= 6)
            assert told[0] == {"op": "run", "info": to_plain(descriptor)}
            assert [(m["op"], m.get("seq")) for m in told[1:]] == [("event", seq) for seq in range(5)]

            late = await _attach(scheduler)
            told = await _told(late, lambda told: any(m["op"] == "attached" for m in told))
            assert [m["op"] for m in told] == ["run", "summary", *["event"] * 5, "attached"]
            assert told[1]["info"]["next_seq"] == 5
            record = RunRecord.replay(descriptor, [(m["seq"], m["data"]) for m in told if m["op"] == "event"])
            told[1]["info"]["points_seq"] = 5  # there are no points to examine
            assert record.info == convert(told[1]["info"], RunInfo)

            back = await _attach(scheduler, after={"r": 2})  # it already has the descriptor
            told = await _told(back, lambda told: any(m["op"] == "attached" for m in told))
            assert [(m["op"], m.get("seq")) for m in told] == [
                ("summary", None), ("event", 3), ("event", 4), ("attached", None)
            ]  # fmt: skip
            for comm in (early, late, back):
                comm.abort()

    asyncio.run(follow())


def test_the_archive_is_given_every_picture_and_who_comes_late_those_that_are_left(tmp_path: Path) -> None:
    async def follow() -> None:
        async with Scheduler(port=0, dashboard_address=":0") as scheduler:
            controller = Controller(settings(tmp_path))
            await controller.start(scheduler)
            run = controller.runs.add(RunDescriptor(id="r", name="r", cluster="long"), RunRequest())
            pictures = [
                Picture(time=1.0, task="worker:0", name="input", step=step, png=b"x" * (1 << 18), width=8, height=8)
                for step in range(100)
            ]
            encoded = [encode_event(picture) for picture in pictures]
            for data in encoded:
                run.record_encoded(data)
            archive = await _attach(scheduler, "archive")
            told = await _told(archive, lambda told: sum(m["op"] == "event" for m in told) >= 100)
            assert [m["data"] for m in told if m["op"] == "event"] == encoded
            run.record_encoded(encoded[0])
            told = await _told(archive, lambda told: any(m["op"] == "event" for m in told))  # it already has the others
            late = await _attach(scheduler)
            told = await _told(late, lambda told: any(m["op"] == "attached" for m in told))
            found = [m["data"] for m in told if m["op"] == "event"]
            left = MOST_BYTES // len(encoded[0])
            assert found == [NOT_KEPT] * (101 - left) + encoded[101 - left :] + encoded[:1]
            for comm in (archive, late):
                comm.abort()

    asyncio.run(follow())


def test_a_list_of_runs_does_not_wait_for_a_long_log(tmp_path: Path) -> None:
    async def follow() -> None:
        async with Scheduler(port=0, dashboard_address=":0") as scheduler:
            controller = Controller(settings(tmp_path))
            await controller.start(scheduler)
            for name in ("a", "b", "c"):
                descriptor = RunDescriptor(id=name, name=name, cluster="long")
                run = controller.runs.add(descriptor, RunRequest())
                for _ in range(2 * MOST_MESSAGES):
                    run.note("info", "so it goes")
            comm = await _attach(scheduler)
            first = await asyncio.wait_for(comm.read(), left_s())
            known = [m["info"]["id"] for m in first if m["op"] == "summary"]
            assert known == ["a", "b", "c"]
            comm.abort()

    asyncio.run(follow())


def test_a_new_viewer_of_a_very_long_run_gets_every_event_while_others_come(tmp_path: Path) -> None:
    """A viewer is not disconnected if more than 100,000 messages, a former limit, are waiting for it."""

    async def attach() -> None:
        async with Scheduler(port=0, dashboard_address=":0") as scheduler:
            controller = Controller(settings(tmp_path))
            await controller.start(scheduler)
            info = RunDescriptor(id="r", name="r", cluster="long", jobs={"worker": 1})
            run = controller.runs.add(info, RunRequest())
            event = encode_event(Note(time=1.0, level="info", title="so it goes"))
            for _ in range(EVENTS):
                run.record_encoded(event)
            comm = await _attach(scheduler)
            seqs: list[int] = []
            attached = False
            while len(seqs) < EVENTS + 10 or not attached:
                piece: list[dict[str, Any]] = await asyncio.wait_for(comm.read(), left_s())
                assert len(piece) <= MOST_MESSAGES + 4
                if not seqs:
                    for _ in range(10):
                        run.record_encoded(event)  # while the others are being sent
                seqs += [message["seq"] for message in piece if message["op"] == "event"]
                attached = attached or any(message["op"] == "attached" for message in piece)
            assert seqs == list(range(EVENTS + 10))
            comm.abort()

    asyncio.run(attach())
