from __future__ import annotations

import base64
import csv
import io
import math
from pathlib import Path
from typing import Any

import pytest

from jupyter_dtf.backend.records.hub import Hub
from jupyter_dtf.backend.records.output_files import Clock, OutputWriter, lines_file
from jupyter_dtf.backend.records.output_reader import PAGE_BYTES
from jupyter_dtf.schema.api import ClusterInfo, ClusterState
from jupyter_dtf.schema.base import convert
from jupyter_dtf.schema.events import Histogram, Logged, Picture, ReportedTable, ReportedText, encode_event
from jupyter_dtf.schema.run import RunDescriptor, RunInfo, RunState
from jupyter_dtf.schema.trace import TraceData, TracedOp, leave_trace

from ..backend.records.run_events import T0, encoded, points, run_info, short_run
from .conftest import Api
from .fleet import MemoryFleet


def feed(hub: Hub, run_id: str = "r1", end: RunState = RunState.SUCCEEDED, created: float = T0) -> RunInfo:
    hub.add_run(run_info(run_id, created))
    for seq, data in encoded(short_run(end)):
        hub.apply(run_id, seq, data)
    return hub.info(run_id)


async def test_runs_are_listed_newest_first_and_looked_at(hub: Hub, api: Api) -> None:
    assert await api("GET", "runs") == []
    feed(hub, "old")
    feed(hub, "new", created=T0 + 1)
    assert [run["id"] for run in await api("GET", "runs")] == ["new", "old"]
    run = await api("GET", "runs", "old")
    assert (run["state"], run["latest"], run["sparkline"]) == ("succeeded", {"loss": 1.5}, [3, 2, 1])
    assert [task["task"] for task in run["tasks"]] == ["worker:0", "worker:1"]


async def test_a_run_under_way_is_stopped_and_an_ended_one_deleted(hub: Hub, fleet: MemoryFleet, api: Api) -> None:
    feed(hub, "live", end=RunState.RUNNING)
    feed(hub, "done")
    await api("POST", "runs", "live", "stop", body={})
    assert api.response.code == 202
    assert fleet.asked == [("stop_run", "live")]
    assert (await api.refused(409, "POST", "runs", "done", "stop"))["error"] == "Conflict"
    assert (await api.refused(409, "DELETE", "runs", "live"))["error"] == "Conflict"
    await api("DELETE", "runs", "done")
    assert api.response.code == 204
    assert [run["id"] for run in await api("GET", "runs")] == ["live"]


async def test_a_run_is_tagged_deleted_and_had_back(hub: Hub, api: Api) -> None:
    feed(hub, "live", end=RunState.RUNNING)
    feed(hub, "done")
    run = await api("PATCH", "runs", "done", body={"name": "best", "tags": ["a"], "archived": True})
    assert (run["name"], run["marks"]["tags"], run["marks"]["archived"]) == ("best", ["a"], True)
    await api("PATCH", "runs", "done", body={"deleted": True})
    assert [run["id"] for run in await api("GET", "runs")] == ["live"]
    await api("PATCH", "runs", "done", body={"deleted": False})
    assert {run["name"] for run in await api("GET", "runs")} == {"best", hub.info("live").name}
    note = "\U0001f642" * 10_000
    assert (await api("PATCH", "runs", "done", body={"note": note}))["marks"]["note"] == note
    assert (await api.refused(400, "PATCH", "runs", "done", body={"note": note + "!"}))["field"] == "note"
    assert (await api.refused(409, "PATCH", "runs", "live", body={"deleted": True}))["error"] == "Conflict"
    assert (await api.refused(400, "PATCH", "runs", "done", body={"tags": [""]}))["field"] == "tags"
    assert (await api.refused(400, "PATCH", "runs", "done", body={"tag": "a"}))["field"] == "tag"
    assert (await api.refused(404, "PATCH", "runs", "none", body={}))["error"] == "NotFound"


async def test_a_run_is_gone_on_with_as_a_new_one(hub: Hub, fleet: MemoryFleet, api: Api) -> None:
    fleet.set_cluster(ClusterInfo(name="lab", kind="local", state=ClusterState.RUNNING))
    feed(hub, "program")
    hub.add_run(RunDescriptor(id="fit", name="fit", cluster="old", kind="fit", goes_on=True))
    new = await api("POST", "runs", "fit", "resume", body={"cluster": "lab", "step": 50})
    assert api.response.code == 201
    assert (new["id"], new["resumed_from"]) == ("fit-again", "fit")
    assert fleet.asked[-1] == ("resume_run", "fit", "lab", 50)
    refused = await api.refused(409, "POST", "runs", "program", "resume", body={"cluster": "lab"})
    assert refused["message"].startswith("Only training can be resumed")
    assert (await api.refused(404, "POST", "runs", "fit", "resume", body={"cluster": "gone"}))["error"] == "NotFound"
    assert (await api.refused(404, "POST", "runs", "none", "resume", body={"cluster": "lab"}))["error"] == "NotFound"
    assert (await api.refused(400, "POST", "runs", "fit", "resume", body={"cluster": "No!"}))["field"] == "cluster"
    assert (await api.refused(400, "POST", "runs", "fit", "resume", body={"step": "last"}))["field"] == "step"


async def test_a_run_is_paused_and_continued(hub: Hub, fleet: MemoryFleet, api: Api) -> None:
    feed(hub, "live", end=RunState.RUNNING)
    for what in ("pause", "continue"):
        await api("POST", "runs", "live", what, body={})
        assert api.response.code == 202
        assert fleet.asked[-1] == (f"{what}_run", "live")
        assert (await api.refused(404, "POST", "runs", "none", what))["error"] == "NotFound"


async def test_a_run_is_profiled_while_it_is_running(hub: Hub, fleet: MemoryFleet, api: Api) -> None:
    feed(hub, "live", end=RunState.RUNNING)
    await api("POST", "runs", "live", "profile", body={"steps": 5})
    assert api.response.code == 202
    await api("POST", "runs", "live", "profile", body={})
    assert fleet.asked[-2:] == [("profile_run", "live", 5), ("profile_run", "live", 3)]
    feed(hub, "done")
    assert (await api.refused(409, "POST", "runs", "done", "profile", body={}))["error"] == "Conflict"
    assert (await api.refused(404, "POST", "runs", "none", "profile", body={}))["error"] == "NotFound"
    for steps in (0, 101):
        refused = await api.refused(400, "POST", "runs", "live", "profile", body={"steps": steps})
        assert refused["field"] == "steps" and refused["message"].endswith(f"from 1 to 100, got {steps}")


async def test_events_are_given_after_a_number(hub: Hub, api: Api) -> None:
    feed(hub)
    message = await api("GET", "runs", "r1", "events")
    assert (message["type"], message["run"], message["next_seq"]) == ("events", "r1", 11)
    assert [event["seq"] for event in message["events"]] == [0, 1, 2, 3, 6, 7, 8, 9, 10]
    types = ["run", "task", "task", "run", "log", "progress", "task", "task", "run"]
    assert [event["type"] for event in message["events"]] == types
    assert message["events"][4]["lines"] == ["hello"]
    later = await api("GET", "runs", "r1", "events", after=7)
    assert later["events"] == message["events"][6:]
    assert (await api("GET", "runs", "r1", "events", after=10))["events"] == []


@pytest.mark.parametrize("after", ["x", "1.5", "", "1e3"])
async def test_after_is_a_whole_number(hub: Hub, api: Api, after: str) -> None:
    feed(hub)
    error = await api.refused(400, "GET", "runs", "r1", "events", after=after)
    assert error["field"] == "after"
    assert f"got {after!r}" in error["message"]


async def test_every_point_can_be_downloaded(hub: Hub, api: Api) -> None:
    feed(hub, end=RunState.RUNNING)
    many = [{"a,b": float(i)} for i in range(12_000)]
    many[5] = {"a,b": math.nan}
    hub.apply("r1", 8, encode_event(points("worker:1", 3, many)))
    text = await api("GET", "runs", "r1", "metrics.csv")
    assert api.response.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert "r1.csv" in api.response.headers["Content-Disposition"]
    header, *rows = csv.reader(io.StringIO(text))
    assert header == ["metric", "task", "seq", "step", "time", "value"]
    assert len(rows) == 6 + 12_000
    assert rows[0] == ["loss", "worker:0", "0", "0.0", str(T0), "3.0"]
    assert rows[-1] == ["a,b", "worker:1", "12002", "12002.0", str(T0 + 12_002), "11999.0"]
    assert rows[6 + 5][-1] == "nan"


async def test_a_part_of_a_plot_has_as_many_points_as_the_whole(hub: Hub, api: Api) -> None:
    hub.add_run(run_info("r1"))
    hub.apply("r1", 0, encode_event(points("worker:0", 0, [{"loss": float(i % 7)} for i in range(20_000)])))

    async def asked(**query: Any) -> tuple[list[float], list[float]]:
        (frame,) = (await api("GET", "runs", "r1", "series", metrics='["loss"]', width="100", **query))["frames"]
        assert (frame["metric"], frame["task"], frame["start"]) == ("loss", "worker:0", 0)
        return frame["x"], frame["y"]

    whole, _ = await asked()
    assert (whole[0], whole[-1]) == (0, 19_999)
    assert 50 < len(whole) < 150
    steps, values = await asked(start="5000", end="5020")
    assert steps == list(range(4_999, 5_022))  # every point, and one on each side
    assert values == [step % 7 for step in steps]
    times, _ = await asked(start=str(T0 + 5000), end=str(T0 + 6000), x="time")
    assert len(times) > 50
    assert min(times) >= T0 + 4_999
    assert max(times) <= T0 + 6_001
    assert (await api.refused(400, "GET", "runs", "r1", "series", start="2", end="1"))["field"] == "start"
    assert (await api.refused(400, "GET", "runs", "r1", "series", width="1"))["field"] == "width"


async def test_histograms_and_pictures_are_listed_and_given(hub: Hub, api: Api) -> None:
    hub.add_run(run_info("r1"))
    told: dict[str, Any] = {"time": T0, "task": "worker:0", "step": 4.0}
    histogram = Histogram(**told, name="a/b c", low=0.0, high=2.0, counts=[1, 2], not_a_number=1)
    hub.apply("r1", 0, encode_event(histogram))
    hub.apply("r1", 1, encode_event(Picture(**told, name="input", png=b"\x89PNG", width=2, height=1, caption="a 7")))
    listed = await api("GET", "runs", "r1", "media")
    assert [(one["kind"], one["name"], one["task"], one["steps"]) for one in listed] == [
        ("histogram", "a/b c", "worker:0", [4]),
        ("image", "input", "worker:0", [4]),
    ]
    (given,) = await api("GET", "runs", "r1", "histograms", name="a/b c", task="worker:0")
    assert convert(given, Histogram) == histogram
    image = await api("GET", "runs", "r1", "image", name="input", task="worker:0", step="100")
    assert (base64.b64decode(image["png"]), image["caption"]) == (b"\x89PNG", "a 7")
    await api.refused(404, "GET", "runs", "r1", "image", name="input", task="worker:0", step="3")
    hub.apply("r1", 2, encode_event(ReportedText(**told, name="said", text="one\ntwo")))
    hub.apply("r1", 3, encode_event(ReportedTable(**told, name="worst", columns=["i"], rows=[["a"], [1.5], [None]])))
    assert (await api("GET", "runs", "r1", "text", name="said", task="worker:0", step="4"))["text"] == "one\ntwo"
    assert (await api("GET", "runs", "r1", "table", name="worst", task="worker:0"))["rows"] == [["a"], [1.5], [None]]
    events = await api("GET", "runs", "r1", "events")
    assert (events["events"], events["next_seq"]) == ([], 4)  # they are not sent to viewers of the run


async def test_a_trace_is_given_and_downloaded(hub: Hub, api: Api, tmp_path: Path) -> None:
    info = run_info("r1", T0)
    info.run_dir = str(tmp_path)
    hub.add_run(info)
    assert "trace_steps" in (await api.refused(404, "GET", "runs", "r1", "trace"))["message"]
    op = TracedOp(step=1, op="a", op_type="A", device="/job:w/task:0", start_us=0.0, duration_us=2.0)
    leave_trace(tmp_path, "worker:0", TraceData(origin_us=5, ops=[op], warnings=["beware"]))
    trace = await api("GET", "runs", "r1", "trace")
    assert convert(trace, TraceData) == TraceData(origin_us=5, ops=[op], warnings=["beware"])
    document = await api("GET", "runs", "r1", "chrome-trace.json")
    assert "r1.trace.json" in api.response.headers["Content-Disposition"]
    assert [event["ts"] for event in document["traceEvents"] if event["ph"] == "X"] == [0]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ()),
        ("DELETE", ()),
        ("POST", ("stop",)),
        ("GET", ("events",)),
        ("GET", ("output",)),
        ("GET", ("output.txt",)),
        ("GET", ("series",)),
        ("GET", ("media",)),
        ("GET", ("image",)),
        ("GET", ("metrics.csv",)),
        ("GET", ("trace",)),
        ("GET", ("chrome-trace.json",)),
    ],
)
async def test_an_unknown_run_is_not_found(fleet: MemoryFleet, api: Api, method: str, path: Any) -> None:
    error = await api.refused(404, method, "runs", "nobody", *path)
    assert error["error"] == "NotFound"
    assert "'nobody'" in error["message"]


def prints(run_dir: Path, blocks: int, size: int = 1000) -> None:
    """Write the output of two tasks, which take turns to print a line of this size."""
    clock = Clock()
    writers = [OutputWriter(lines_file(run_dir, f"worker:{i}", "stdout")) for i in (0, 1)]
    for number in range(blocks):
        line = f"{number:0{size - 1}}\n".encode()
        writers[number % 2].write(clock.now(), number // 2, 1, line)
    for writer in writers:
        writer.close()


async def test_output_is_downloaded_whole_or_what_is_looked_for(hub: Hub, api: Api, tmp_path: Path) -> None:
    info = run_info("r1", T0)
    info.run_dir = str(tmp_path)
    hub.add_run(info)
    assert await api("GET", "runs", "r1", "output.txt") == ""
    prints(tmp_path, 2500)  # more than one piece
    lines = (await api("GET", "runs", "r1", "output.txt")).splitlines()
    assert "r1.txt" in api.response.headers["Content-Disposition"]
    assert api.response.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert [line.split(" | ")[0] for line in lines[:3]] == ["worker:0", "worker:1", "worker:0"]
    assert [int(line.split(" | ")[1]) for line in lines] == list(range(2500))
    own = (await api("GET", "runs", "r1", "output.txt", task="worker:1", find="0123")).splitlines()
    assert [int(line) for line in own] == [number for number in range(1, 2500, 2) if "0123" in f"0{number}"]


async def test_output_is_given_by_pages_that_are_bounded(hub: Hub, api: Api, tmp_path: Path) -> None:
    info = run_info("r1", T0)
    info.run_dir = str(tmp_path)
    hub.add_run(info)
    assert await api("GET", "runs", "r1", "output") == {
        "run": "r1",
        "events": [],
        "earlier": False,
        "later": False,
        "total": 0,
    }
    prints(tmp_path, 2000)
    numbers: list[int] = []
    page = await api("GET", "runs", "r1", "output")
    assert page["later"] is False
    while True:
        assert len(api.response.body) < PAGE_BYTES * 1.5
        numbers = [int(line) for event in page["events"] for line in event["lines"]] + numbers
        if not page["earlier"]:
            break
        page = await api("GET", "runs", "r1", "output", before_time=repr(page["events"][0]["time"]))
    assert numbers == list(range(2000))
    page = await api("GET", "runs", "r1", "output", after_time=repr(page["events"][-1]["time"]), task="worker:1")
    assert {event["task"] for event in page["events"]} == {"worker:1"}
    assert page["later"]
    page = await api("GET", "runs", "r1", "output", task="worker:1", stream="stdout", first=-2, count=1)
    assert (page["total"], page["later"], page["events"][0]["first"]) == (1000, True, 998)
    assert int(page["events"][0]["lines"][0]) == 1997
    page = await api("GET", "runs", "r1", "output", task="worker:7", stream="stdout")
    assert page["events"] == []


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"stream": "stdout"}, "stream"),
        ({"stream": "x", "task": "worker:0"}, "stream"),
        ({"stream": "stdout", "task": "worker:0", "count": 0}, "count"),
        ({"before_time": "now"}, "before_time"),
        ({"before_time": "nan"}, "before_time"),
        ({"before_time": 1, "after_time": 1}, "after_time"),
    ],
)
async def test_pages_of_output_are_asked_for_by_rules(hub: Hub, api: Api, query: dict[str, Any], field: str) -> None:
    feed(hub)
    assert (await api.refused(400, "GET", "runs", "r1", "output", **query))["field"] == field


async def test_events_come_in_bodies_that_are_bounded(hub: Hub, api: Api) -> None:
    hub.add_run(run_info())
    for seq in range(1200):
        line = Logged(time=T0, task="worker:0", stream="stdout", first=seq, lines=["x" * 1000])
        hub.apply("r1", seq, encode_event(line))
    seqs: list[int] = []
    after = -1
    while after < 1199:
        message = await api("GET", "runs", "r1", "events", after=after)
        assert len(api.response.body) < 400_000
        seqs += [event["seq"] for event in message["events"]]
        after = message["next_seq"] - 1
    assert seqs == list(range(1200))
