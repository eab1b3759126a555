"""Tests of profiling a design's model on a real cluster. Profiling ends when its client disconnects."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import keras
import pytest

from jupyter_dtf.backend.task.describe.layer_graph import describe
from jupyter_dtf.handlers.services import Services
from jupyter_dtf.schema.base import decode_json, to_plain
from jupyter_dtf.schema.design import Design, ModelDesign, ModelSource, RunSettings
from jupyter_dtf.schema.placement import Calibration

from ..patience import left_s
from .conftest import Api, Post


def small() -> Any:
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    return model


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # from Keras, when it saves
async def test_a_model_in_a_file_is_measured(services: Services, api: Api, post: Post, jp_root_dir: Path) -> None:
    model = small()
    model.save(jp_root_dir / "small.keras")
    design = Design(
        model=ModelDesign(graph=describe(model), source=ModelSource(kind="file", path="small.keras")),
        run=RunSettings(batch_size=32, microbatches=4),
    )
    body = {"design": to_plain(design), "cluster": "measured"}
    await api("POST", "clusters", body={"name": "measured", "jobs": {"worker": 2}})
    fleet = await services.fleet()
    await fleet.ready("measured")
    answer, connection = await post("designs/profile", json.dumps(body))
    text = (await answer.read()).partition(b"\r\n\r\n")[2]
    connection.close()
    measured = decode_json(text, Calibration)
    assert measured.batch_size == 8
    assert set(measured.layer_seconds) == {layer.id for layer in design.model.graph.layers}  # type: ignore[union-attr]
    assert [device.name for device in measured.devices] == [f"/job:worker/task:{n}/device:CPU:0" for n in range(2)]

    ended: asyncio.Queue[str] = asyncio.Queue()
    begun: asyncio.Queue[str] = asyncio.Queue()
    known = {run.id for run in fleet.hub.runs()}

    def on_change(run_id: str) -> None:
        info = fleet.hub.info(run_id)
        if run_id not in known:
            (ended if info.state.is_final else begun).put_nowait(info.state.value)

    unsubscribe = fleet.hub.subscribe(on_change)
    _, connection = await post("designs/profile", json.dumps(body))
    await asyncio.wait_for(begun.get(), left_s())
    connection.close()
    assert await asyncio.wait_for(ended.get(), left_s()) == "stopped"
    unsubscribe()
    await fleet.close_cluster("measured")


async def test_what_cannot_be_measured(fleet: Any, api: Api, jp_root_dir: Path) -> None:
    design = to_plain(Design.parse((Path(__file__).parents[2] / "designs" / "full.dtf").read_text(encoding="utf-8")))
    error = await api.refused(409, "POST", "designs", "profile", body={"design": design, "cluster": "a"})
    assert error["message"].startswith("The model must be in a file, got a model from kernel. For a model in a kernel")
    design["model"]["source"] = {"kind": "file", "path": "missing.keras"}
    await api.refused(404, "POST", "designs", "profile", body={"design": design, "cluster": "a"})
    (jp_root_dir / "missing.keras").touch()
    error = await api.refused(404, "POST", "designs", "profile", body={"design": design, "cluster": "a"})
    assert error["message"].startswith("There is no cluster named")
