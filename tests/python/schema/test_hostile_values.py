"""Absurd values are refused with a message where they enter, and text that cannot be shown never fails a run."""

from __future__ import annotations

import fcntl
import json
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import psutil
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jupyter_dtf.backend.machine import paths
from jupyter_dtf.backend.planning import check_design, export_script
from jupyter_dtf.backend.records.hub import Hub
from jupyter_dtf.backend.records.store import Store
from jupyter_dtf.backend.records.trace_files import read_placement, read_traces
from jupyter_dtf.backend.task.context import Context
from jupyter_dtf.backend.task.recorder import Recorder
from jupyter_dtf.backend.viewer import connections
from jupyter_dtf.backend.viewer.templates import Templates
from jupyter_dtf.errors import DtfError, InvalidInput, Unavailable
from jupyter_dtf.schema.api import ClusterState, ErrorInfo, Template
from jupyter_dtf.schema.base import decode_json, encode_json
from jupyter_dtf.schema.cluster_request import ClusterRequest
from jupyter_dtf.schema.design import Design, ProfileRequest
from jupyter_dtf.schema.events import EpochEnded, Note, Progressed, decode_event
from jupyter_dtf.schema.frames import HEADER, POINT
from jupyter_dtf.schema.launch import Outcome, TaskSpec, leave_outcome, read_outcome
from jupyter_dtf.schema.printable import printable
from jupyter_dtf.schema.run import RunInfo, RunRequest, RunState
from jupyter_dtf.schema.trace import placement_file, trace_file

HALF = "a \ud800 half"
SHOWN = "a \\ud800 half"
LONG = "1" + "0" * 5_000

scalars = st.sampled_from(
    [LONG, f"-{LONG}", f"1.{LONG}", "1" + "0" * 400, str(2**63), "1e999", "-1e999", "NaN", "Infinity", "{}",
     '"\\ud800"', '"\\u0000"', "null", "true", "-1", "0", "1.5", "[" * 5_000,
     "9007199254740993", '"' + "x" * 10_000 + '"']
)  # fmt: skip
FIELDS = [
    "version", "cluster", "cluster.jobs", "cluster.jobs.worker", "cluster.name", "cluster.options.hosts",
    "cluster.hosts", "model", "model.graph.layers", "placement.devices.a", "run.epochs", "run.batch_size",
    "run.replicas", "run.microbatches", "calibration", "drawing.a", "nonsense", "\\ud800",
]  # fmt: skip


FULL = (Path(__file__).parents[2] / "designs" / "full.dtf").read_text(encoding="utf-8")


def document(field: str, value: str, whole: str) -> str:
    """Return a design in which one field has an arbitrary JSON value."""
    design = inside = json.loads(whole)
    *above, last = field.split(".")
    for key in above:
        inside = inside.setdefault(key, {})
    inside[last] = "@"
    return json.dumps(design).replace('"@"', value).replace("\\\\ud800", "\\ud800")


@settings(deadline=None)
@given(st.sampled_from(FIELDS), scalars, st.sampled_from(["{}", FULL]))
@example("run.replicas", "0", FULL)
@example("run.epochs", LONG, "{}")
@example("run.epochs", LONG, FULL)
def test_a_design_is_read_or_refused_in_a_sentence(field: str, value: str, whole: str) -> None:
    text = document(field, value, whole)
    for read in (
        lambda: _looked_at(Design.parse(text)),
        lambda: decode_json(f'{{"cluster": "a", "design": {text}}}', ProfileRequest),
        lambda: decode_json(text, ClusterRequest),
    ):
        try:
            encode_json(read())
        except DtfError as error:
            info = ErrorInfo(message=str(error), error=type(error).__name__, field=getattr(error, "field", ""))
            assert len(encode_json(info)) < 5_000


def _looked_at(design: Design) -> Any:
    """Return everything that a click in the designer computes from a design."""
    found: list[Any] = [check_design.check(design)]
    for look in (lambda: check_design.place(design), lambda: _script(design), design.text):
        try:
            found.append(look())
        except InvalidInput as error:
            found.append(str(error))
    return found


def _script(design: Design) -> str:
    check_design.request_of(design)  # as the server does
    return export_script.script(design)


@pytest.mark.parametrize("text", [LONG, f"[{LONG}]", f'{{"a": {2**63}}}', f"-{2**63 + 1}"])
def test_integers_that_nobody_could_encode_again(text: str) -> None:
    with pytest.raises(InvalidInput):
        decode_json(text, object)


def test_what_cannot_be_shown_is_encoded_as_an_escape() -> None:
    info = ErrorInfo(message=HALF, error="InvalidInput", field=f"a.{HALF}")
    assert json.loads(encode_json([info]))[0] == {"message": SHOWN, "error": "InvalidInput", "field": f"a.{SHOWN}"}
    assert encode_json({"a": math.nan}) == b'{"a":null}'
    assert printable("x" * 20, most=8) == "xxxxxxxx... (12 more characters)"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": HALF}, "name"),
        ({"name": "a\x1b[2J"}, "name"),
        ({"cwd": "/a\0b"}, "cwd"),
        ({"environment": {"A": "\0"}}, "environment.A"),
        ({"environment": {"A": HALF}}, "environment.A"),
        ({"environment": {"A=B": "c"}}, "environment"),
        ({"environment": {"": "c"}}, "environment"),
    ],
)
def test_a_run_that_no_task_could_enter(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput, match="must") as refused:
        RunRequest(**fields)
    assert refused.value.field == field
    str(refused.value).encode()


# -- what a program reports ----------------------------------------------------------------------------------------


@contextmanager
def speaking(rank: int = 0) -> Iterator[tuple[Context, Callable[[], list[Any]]]]:
    """Yield a context, and a function that closes its pipe and returns all events, and points as (step, values)."""
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 1 << 20)
    spec = TaskSpec(
        run_id="r", cluster="c", job_name="worker", task_index=rank, cluster_spec={"worker": {rank: "h:1"}}, rank=rank,
        size=2, local_rank=rank, local_size=2, machines=["m", "m"], threads=1, run_dir="", stop_grace_s=1,
    )  # fmt: skip
    recorder = Recorder(write)

    def said() -> list[Any]:
        recorder.close()
        with open(read, "rb", closefd=False) as pipe:
            data = pipe.read()
        found: list[Any] = []
        while data:
            length, kind = HEADER.unpack_from(data)
            body, data = data[HEADER.size : HEADER.size + length], data[HEADER.size + length :]
            found.append(tuple(msgspec.msgpack.decode(body))[::2] if kind == POINT else decode_event(body))
        return found

    try:
        yield Context(spec, recorder), said
    finally:
        os.close(read)


def test_halves_of_characters_are_shown_as_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    with speaking() as (ctx, said):
        ctx.report(step=1, **{HALF: 2.0})
        ctx.note("info", HALF, HALF * 100_000)
        ctx.progress(1, unit=HALF)
        ctx.epoch_ended(0, 1, {HALF: 3.0})
        ctx.log(HALF)
        point, note, progressed, epoch = said()
    assert point == (1.0, {SHOWN: 2.0})
    assert isinstance(note, Note) and note.title == SHOWN and note.text.endswith("more characters)")
    assert isinstance(progressed, Progressed) and progressed.progress.unit == SHOWN
    assert isinstance(epoch, EpochEnded) and epoch.logs == {SHOWN: 3.0}
    assert capsys.readouterr().out == f"{SHOWN}\n"


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(
    ("say", "match"),
    [
        (lambda ctx: ctx.progress("x"), "`done` must be a whole number from 0 to 9007199254740992, got 'x'"),
        (lambda ctx: ctx.progress(1, total=-1), "`total` must be a whole number"),
        (lambda ctx: ctx.progress(1.5), "`done` must be"),
        (lambda ctx: ctx.progress(math.nan), "`done` must be"),
        (lambda ctx: ctx.progress(10**400), "`done` must be"),
        (lambda ctx: ctx.progress(None), "`done` must be"),
        (lambda ctx: ctx.progress(1, epochs=True), "`epochs` must be"),
        (lambda ctx: ctx.progress(1, unit=3), "`unit` must be a string, got 3"),
        (lambda ctx: ctx.report(loss="x"), "`loss` must be a number, got 'x'"),
        (lambda ctx: ctx.report(loss=None), "`loss` must be a number, got None"),
        (lambda ctx: ctx.report(loss=10**400), "`loss` must be a number"),
        (lambda ctx: ctx.report(step="x", loss=1), "`step` must be a number, got 'x'"),
        (lambda ctx: ctx.report(step=math.inf, loss=1), "`step` must be a finite number, got inf"),
        (lambda ctx: ctx.note("loud", "a"), "`level` must be one of info, warning, error, got 'loud'"),
        (lambda ctx: ctx.note([], "a"), "`level` must be one of"),
        (lambda ctx: ctx.note("info", 3), "`title` must be a string, got 3"),
        (lambda ctx: ctx.note("info", "a", None), "`text` must be a string, got None"),
        (lambda ctx: ctx.epoch_ended(0, 1, {"loss": "x"}), "`loss` must be a number"),
        (lambda ctx: ctx.epoch_ended("x", 1, {}), "`epoch` must be a whole number"),
    ],
)
def test_wrong_types_are_refused_on_every_task(say: Callable[[Any], None], match: str, rank: int) -> None:
    with speaking(rank) as (ctx, said):
        with pytest.raises(InvalidInput, match=match):
            say(ctx)
        assert said() == []


def test_numbers_of_other_libraries_are_numbers() -> None:
    with speaking() as (ctx, said):
        ctx.progress(np.int64(3), total=4.0)  # type: ignore[arg-type]
        ctx.report(np.float32(2), loss=np.float64(math.nan))
        progressed, (step, values), not_finite = said()
    assert (not_finite.metric, not_finite.step) == ("loss", 2.0)
    assert (progressed.progress.done, progressed.progress.total) == (3, 4)
    assert step == 2.0 and math.isnan(values["loss"])


def test_a_failure_with_such_a_message_is_told(tmp_path: Path) -> None:
    leave_outcome(tmp_path, Outcome(ok=False, message=HALF, traceback=HALF, error="builtins.ValueError"))
    outcome = read_outcome(tmp_path)
    assert outcome is not None and (outcome.message, outcome.traceback) == (SHOWN, SHOWN)


# -- damaged files of this package ---------------------------------------------------------------------------------

damage = [b"", b"\0", b"[]", b"{" * 100_000, b"\xff\xfe", LONG.encode(), f'{{"pid": {LONG}}}'.encode(), b'"\\ud800"']


@pytest.mark.parametrize("data", damage)
def test_connection_files(data: bytes) -> None:
    directory = paths.connections_dir()
    (directory / "bad.json").write_bytes(data)
    (directory / "Not A Name.json").write_bytes(data)
    (directory / "folder.json").mkdir()
    os.mkfifo(directory / "pipe.json")
    assert connections.read_all() == {}
    with pytest.raises(Unavailable):
        connections.read("pipe")


@pytest.mark.parametrize("pid", [-1, 0, 2**31, 2**63, 10**30])
def test_process_ids_that_no_process_has(pid: int) -> None:
    connection = connections.Connection(
        name="a",
        kind="local",
        state=ClusterState.RUNNING,
        pid=pid,
        pid_created=0.0,
        created=0.0,
        jobs={},
    )
    assert not connection.is_alive


@pytest.mark.parametrize("data", damage[1:])
def test_templates(data: bytes, tmp_path: Path) -> None:
    templates = Templates(tmp_path / "templates.json")
    templates.path.write_bytes(data)
    assert templates.all() == []
    templates.put(Template(name="a", request=ClusterRequest()))
    assert [template.name for template in templates.all()] == ["a"]


@pytest.mark.parametrize("data", [*damage, None, 3, "text", msgspec.msgpack.encode({"id": 1})])
def test_runs_in_the_store(data: Any, tmp_path: Path) -> None:
    store = Store(tmp_path / "runs.sqlite")
    try:
        for name in ("good", "bad"):
            store.put_run(RunInfo(id=name, name=name, cluster="c", state=RunState.SUCCEEDED))
        store.put_run(RunInfo(id="no events", name="", cluster="c", state=RunState.SUCCEEDED))
        value = b"" if data is None else data
        store._db.execute("UPDATE runs SET info = ? WHERE id = 'bad'", (value,))
        store._db.execute("INSERT INTO events (run_id, seq, data) VALUES ('no events', 0, ?)", (value,))
        assert sorted(info.id for info in store.runs()) == ["good", "no events"]
        hub = Hub(store)
        assert sorted(info.id for info in hub.runs()) == ["good", "no events"]
        for run in ("bad", "no events"):
            with pytest.raises(Unavailable, match="in the store cannot be decoded"):
                hub.record(run)
    finally:
        store.close()


UNKNOWN = b'{"pid"'
"""An unknown field is not damage, because a newer version may have written the file."""


@pytest.mark.parametrize("data", [data for data in damage if not data.startswith(UNKNOWN)])
def test_what_tasks_have_left(data: bytes, tmp_path: Path) -> None:
    for path in (trace_file(tmp_path, "worker:0"), placement_file(tmp_path)):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    for read in (read_traces, read_placement):
        with pytest.raises(Unavailable, match="of the run cannot be read"):
            read(tmp_path)


def test_process_ids_are_those_of_psutil() -> None:
    """``is_alive`` recognizes this process by what psutil says about it."""
    me = psutil.Process()
    connection = connections.Connection(
        name="a",
        kind="local",
        state=ClusterState.RUNNING,
        pid=me.pid,
        pid_created=me.create_time(),
        created=0.0,
        jobs={},
    )
    assert connection.is_alive
