"""Tests of the routes for designs. Placing and describing run in separate processes here too."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import keras
import psutil
import pytest

from jupyter_dtf import entry_points
from jupyter_dtf.backend.task.describe.layer_graph import describe
from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema import subprocess_job
from jupyter_dtf.schema.base import convert, to_plain
from jupyter_dtf.schema.design import Design, ModelDesign
from jupyter_dtf.schema.graph import LayerGraph
from jupyter_dtf.subprocess_jobs.describe_file import describe_file

from .conftest import Api, Post
from .fleet import MemoryFleet

FULL = (Path(__file__).parents[2] / "designs" / "full.dtf").read_text(encoding="utf-8")


async def check(api: Api, text: str) -> dict[str, Any]:
    report: dict[str, Any] = await api("POST", "designs", "check", raw=text.encode())
    return report


async def test_a_sound_design(fleet: MemoryFleet, api: Api) -> None:
    report = await check(api, FULL)
    assert report["problems"] == []
    assert report["devices"]["worker:0"] == "/job:worker/task:0/device:GPU:0"
    assert report["prediction"]["step_seconds"] > 0
    assert report["text"] == ""
    assert fleet.asked == []


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("{\n", (2, 1), "A design must be JSON"),
        ('{"run":\n {"epochs": "1"}}', (2, 13), "Expected `int`, got `str`"),
        ('{"version": 7}', (1, 13), "which was written by a newer version of jupyter_dtf"),
        ('{"drawing": {"a": 1,\n "a": 2}}', (2, 7), "Keys must be unique"),
    ],
)
async def test_a_text_that_is_no_design_has_its_place(
    fleet: MemoryFleet, api: Api, text: str, place: tuple[int, int], message: str
) -> None:
    (problem,) = (await check(api, text))["problems"]
    assert (problem["line"], problem["column"]) == place
    assert message in problem["message"]


async def test_a_text_that_is_not_utf8(fleet: MemoryFleet, api: Api) -> None:
    report = await api("POST", "designs", "check", raw=b'{"drawing": "\xff"}')
    assert "A design must be UTF-8" in report["problems"][0]["message"]


async def test_an_older_version_is_answered_as_it_is_written_today(fleet: MemoryFleet, api: Api) -> None:
    report = await check(api, '{"jobs": {"worker": 3}, "kind": "local"}')
    assert Design.parse(report["text"]).cluster.jobs == {"worker": 3}
    assert json.loads(report["text"])["version"] == 1


@pytest.mark.parametrize(
    ("cluster", "field", "message"),
    [
        ({"kind": "mars"}, "cluster.kind", "`kind` must be one of local, moon, got 'mars'"),
        ({"jobs": {"worker": 0}}, "cluster.jobs.worker", "The number of tasks of a job must be an integer"),
    ],
)
async def test_a_cluster_that_cannot_be_had_here(
    fleet: MemoryFleet, api: Api, cluster: dict[str, Any], field: str, message: str
) -> None:
    (problem,) = (await check(api, json.dumps({"version": 1, "cluster": cluster})))["problems"]
    assert problem["field"] == field and problem["message"].startswith(message)


async def test_what_this_machine_lacks(services: Any, api: Api) -> None:
    """With the real kinds, an option that this machine cannot satisfy and a GPU that it lacks are problems."""
    cluster: dict[str, Any] = {"options": {"hosts": 99}}
    (problem,) = (await check(api, json.dumps({"version": 1, "cluster": cluster})))["problems"]
    assert problem["field"] == "cluster.options.hosts"
    gpus = [1 << 30] * 64
    hosts = [{"name": "a", "gpus": gpus}]
    tasks = [{"job": "worker", "index": 0, "host": "a", "device": "GPU:63"}]
    cluster = {"jobs": {"worker": 1}, "hosts": hosts, "tasks": tasks}
    (problem,) = (await check(api, json.dumps({"version": 1, "cluster": cluster})))["problems"]
    assert problem["field"] == "cluster.tasks[0].device"
    assert problem["message"].startswith("worker:0 was assigned to GPU:63 of host a, which has")


async def test_a_placement_is_made(fleet: MemoryFleet, api: Api) -> None:
    placement = await api("POST", "designs", "place", raw=FULL.encode())
    assert placement["pinned"] == ["logits"]
    assert placement["devices"]["logits"] == "/job:worker/task:1/device:GPU:0"
    assert set(placement["devices"]) | set(placement["splits"]) == {"encoder/dense", "encoder/dense_1", "logits"}


async def test_what_cannot_be_placed(fleet: MemoryFleet, api: Api) -> None:
    error = await api.refused(400, "POST", "designs", "place", raw=b"{}")
    assert error["field"] == "model"
    design = Design.parse(FULL)
    design.run.microbatches = 0
    error = await api.refused(400, "POST", "designs", "place", body=to_plain(design))
    assert error["field"] == "run.microbatches"
    error = await api.refused(400, "POST", "designs", "place", raw=b"[]")
    assert "Expected `object`" in error["message"]


async def test_a_script_of_a_design(fleet: MemoryFleet, api: Api) -> None:
    text = await api("POST", "designs", "script", raw=FULL.encode())
    assert "import tensorflow" in text
    compile(text, "script.py", "exec")
    design = Design.parse(FULL)
    design.placement.devices.clear()
    design.placement.splits.clear()
    error = await api.refused(400, "POST", "designs", "script", raw=design.text().encode())
    assert error["field"] == "placement.devices"


@pytest.fixture
def model() -> Any:
    inputs = keras.Input((8,))
    encoder = keras.Sequential([keras.layers.Dense(4, activation="relu"), keras.layers.Dense(4)], name="encoder")
    return keras.Model(inputs, keras.layers.Dense(2)(encoder(inputs)), name="digits")


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # from Keras, when it saves
async def test_a_model_in_a_file(fleet: MemoryFleet, api: Api, jp_root_dir: Path, model: Any) -> None:
    model.compile("adam", "mse")
    (jp_root_dir / "models").mkdir()
    model.save(jp_root_dir / "models" / "digits.keras")
    graph = convert(await api("POST", "designs", "describe", body={"path": "models/digits.keras"}), LayerGraph)
    assert graph == describe(model)
    design = Design(model=ModelDesign(graph=graph))
    assert (await check(api, design.text()))["problems"] == []


@pytest.mark.parametrize(
    "path", ["missing.keras", "../outside.keras", "/etc/passwd", ".hidden.keras", "a\0b.keras", "", "x" * 5000]
)
async def test_files_that_are_not_there(fleet: MemoryFleet, api: Api, jp_root_dir: Path, path: str) -> None:
    (jp_root_dir.parent / "outside.keras").touch()
    (jp_root_dir / ".hidden.keras").touch()
    await api.refused(404, "POST", "designs", "describe", body={"path": path})


def test_files_that_are_no_models(tmp_path: Path) -> None:
    (tmp_path / "broken.keras").write_bytes(b"PK\3\4")
    with pytest.raises(InvalidInput, match=r"broken\.keras cannot be read\. \w+: ") as refused:
        describe_file(tmp_path / "broken.keras")
    assert refused.value.field == "path"
    (tmp_path / "model.py").touch()
    with pytest.raises(InvalidInput, match=r"whose name ends in \.keras or \.h5, got 'model\.py'"):
        describe_file(tmp_path / "model.py")


async def test_nothing_goes_on_for_a_client_that_has_gone(
    fleet: MemoryFleet, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that works for a request ends when the client disconnects."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))  # where the process finds this job
    endless = EntryPoint(subprocess_job.PLACE, "tests.python.handlers.endless", subprocess_job.GROUP)
    monkeypatch.setitem(entry_points.points(subprocess_job.GROUP), subprocess_job.PLACE, endless)
    before = set(psutil.Process().children())
    _, connection = await post("designs/place", FULL)
    (child,) = await until(lambda: set(psutil.Process().children()) - before)
    connection.close()
    await until(lambda: not child.is_running())


async def until(condition: Callable[[], Any]) -> Any:
    """Wait until the condition holds, and return its value. Other processes provide no event to wait for."""
    while not (found := condition()):
        await asyncio.sleep(0.01)
    return found
