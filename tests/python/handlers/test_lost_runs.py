"""If a cluster dies during training, the run is lost, and can be resumed on another cluster by a route."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import cloudpickle
import keras
import numpy as np
import psutil

import jupyter_dtf as dtf
from jupyter_dtf.client.session import session
from jupyter_dtf.handlers.services import Services

from ..patience import left_s, until
from .conftest import Api
from .test_real_cluster import Watch

cloudpickle.register_pickle_by_value(sys.modules[__name__])

HELD_AT = 17


class Held(keras.callbacks.Callback):
    """A callback that waits after step 17 until its process is killed, but only the first time."""

    def __init__(self, mark: str) -> None:
        super().__init__()
        self.mark = mark

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if int(self.model.optimizer.iterations) == HELD_AT and not os.path.exists(self.mark):
            Path(self.mark).touch()
            signal.pause()


def train(cluster: str, mark: str) -> Any:
    """Start a run of 30 steps with a checkpoint after every seventh, and wait until it is held after step 17."""
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4)])
    model.compile("adam", "mse")
    x, y = np.random.default_rng(3).random((2, 300, 8), np.float32)
    run = dtf.connect(cluster).fit(
        model,
        x,
        y[:, :4],
        batch_size=30,
        epochs=3,
        callbacks=[Held(mark)],
        checkpoint=dtf.Checkpoint(every_steps=7),
        wait=False,
    )
    run.wait_for(lambda _: os.path.exists(mark) and len(run.checkpoints) == 2, left_s())
    return run


async def test_a_run_whose_cluster_is_killed_goes_on_on_another_one(
    api: Api, services: Services, connect: Callable[[], Awaitable[Any]], tmp_path: Path
) -> None:
    watch = Watch(await connect())
    await api("POST", "clusters", body={"name": "first", "jobs": {"worker": 2}, "keep": True})
    await watch.until(lambda: watch.clusters.get("first", {}).get("state") == "running")
    try:
        run = await asyncio.to_thread(train, "first", str(tmp_path / "held"))
        tasks = [task.pid for task in run.info.tasks]
        # The server learns of a checkpoint by itself, possibly later than this process.
        await watch.until(lambda: (watch.runs.get(run.id, {}).get("checkpoint") or {}).get("step") == 14)
        os.kill((await services.fleet()).connection("first").pid, signal.SIGKILL)
        await watch.until(lambda: watch.runs.get(run.id, {}).get("state") == "lost")
        said = watch.runs[run.id]["message"]
        assert said.endswith("was killed (SIGKILL). Its last checkpoint is from step 14"), said
        await asyncio.to_thread(until, lambda: not any(map(psutil.pid_exists, tasks)), f"the end of {tasks}")
        assert {task["state"] for task in watch.runs[run.id]["tasks"]} == {"lost"}
        refused = await api.refused(409, "POST", "runs", run.id, "resume", body={})
        assert refused["message"].startswith(f"The cluster first of the run {run.id} is gone, so name another one")

        await api("POST", "clusters", body={"name": "second", "jobs": {"worker": 2}, "keep": True})
        again = await api("POST", "runs", run.id, "resume", body={"cluster": "second"})  # which may still be starting
        assert (again["resumed_from"], again["cluster"], again["name"]) == (run.id, "second", f"{run.info.name} 2")
        await watch.until(lambda: watch.runs.get(again["id"], {}).get("state") == "succeeded")
        new = await asyncio.to_thread(dtf.run, again["id"])
        steps = new.metrics.query("metric == 'loss' and task == 'worker:0'")["step"].tolist()
        assert steps == list(range(15, 31))
        assert [info.step for info in new.checkpoints] == [21, 28, 30]
        await api("DELETE", "clusters", "second")
        await watch.until(lambda: "second" not in watch.clusters)
    finally:
        await asyncio.to_thread(session().close)
