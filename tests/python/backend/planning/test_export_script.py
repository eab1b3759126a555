"""The script exported from a design trains like the unplaced model, and does not use this package."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jupyter_dtf.backend.planning.export_script import script
from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.design import ClusterDesign, Design, ModelDesign, RunSettings
from jupyter_dtf.schema.graph import LayerGraph
from jupyter_dtf.schema.hosts import TaskPlace
from jupyter_dtf.schema.placement import Placement

from ...patience import left_s

DEVICES = {f"{name}": f"/job:worker/task:{task}/device:CPU:0" for name, task in (("inner", 0), ("norm", 1), ("b", 1))}
FIRST, SECOND = (f"/job:worker/task:{task}/device:CPU:0" for task in (0, 1))
SPLIT = Placement(devices={"inner": FIRST, "norm": SECOND}, splits={"b": [SECOND, FIRST]})
ON_ONE = Placement(devices={"inner": FIRST, "norm": "/job:worker/task:0"}, splits={"b": [FIRST, FIRST]})


def _reserve() -> socket.socket:
    """Return a socket that reserves its port until TensorFlow binds it too."""
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    reserved.bind(("127.0.0.1", 0))
    return reserved


def design(**changed: Any) -> Design:
    run = RunSettings(batch_size=12, microbatches=3, epochs=2)
    return Design(**{"placement": Placement(devices=DEVICES), "run": run, **changed})


def test_what_the_script_does_not_do_is_refused() -> None:
    for changed, said in (
        ({"placement": Placement()}, "needs placed layers to be exported"),
        ({"run": RunSettings(replicas=3)}, "got 2 tasks and 3 copies"),
        ({"cluster": ClusterDesign(jobs={"ps": 2})}, "chief or worker"),
    ):
        with pytest.raises(InvalidInput, match=said):
            script(design(**changed))


def test_tasks_have_the_addresses_of_their_hosts() -> None:
    tasks = [TaskPlace(job="worker", index=0, host="one"), TaskPlace(job="worker", index=1, host="two")]
    text = script(design(cluster=ClusterDesign(jobs={"worker": 3}, tasks=tasks)))
    assert 'CLUSTER = {"worker": ["one:2222", "two:2222", "localhost:2222"]}' in text
    assert "jupyter_dtf" not in text


def network() -> Any:
    import keras

    keras.utils.set_random_seed(4)
    layers = keras.layers
    inner = keras.Sequential([keras.Input((6,)), layers.Dense(7, "tanh"), layers.Dense(6)], name="inner")
    digits = keras.Input((6,))
    hidden = layers.Add(name="skip")([inner(digits), digits])
    model = keras.Model(
        digits, layers.Dense(3, activation="softmax", name="b")(layers.LayerNormalization(name="norm")(hidden))
    )
    optimizer = keras.optimizers.Adam(0.02, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=3)
    model.compile(optimizer, "sparse_categorical_crossentropy")
    return model


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning")
@pytest.mark.parametrize(
    ("placement", "replicas", "in_turn"),
    [(SPLIT, 1, True), pytest.param(ON_ONE, 2, False, marks=pytest.mark.extended)],
    ids=["a split, one forward, one backward", "two copies, fill and drain"],
)
def test_two_processes_learn_what_one_does(tmp_path: Path, placement: Placement, replicas: int, in_turn: bool) -> None:
    import keras

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(41, 6)).astype("float32"), rng.integers(0, 3, size=41)
    model = network()
    model.save(tmp_path / "model.keras")
    np.savez(tmp_path / "data.npz", x=x, y=y)
    run = RunSettings(batch_size=12, microbatches=3, epochs=2, replicas=replicas)
    reserved = [_reserve(), _reserve()]
    addresses = [f"localhost:{one.getsockname()[1]}" for one in reserved]
    described = ModelDesign(graph=LayerGraph(model="m", layers=[], edges=[], takes_turns=in_turn))
    made = script(design(placement=placement, run=run, model=described))
    assert f"TAKES_TURNS = {in_turn}" in made
    text = re.sub(r"CLUSTER = .*", f"CLUSTER = {json.dumps({'worker': addresses})}", made)
    (tmp_path / "script.py").write_text(text)
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "TF_GRPC_REUSE_PORT": "1"}
    tasks = []
    for index in (0, 1):
        command = [sys.executable, "script.py", "--job_name=worker", f"--task_index={index}"]
        command += ["--model=model.keras", "--data=data.npz"] if index == 0 else []
        tasks.append(
            subprocess.Popen(
                command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        )
    try:
        client = tasks[0].communicate(timeout=left_s())
        assert tasks[0].returncode == 0, client
        server = tasks[1].communicate(timeout=left_s())
    finally:
        for task in tasks:
            task.kill()
        for one in reserved:
            one.close()
    assert tasks[1].returncode == 0, server
    assert "Epoch 2/2 - loss of the last batch" in client[0]
    trained = keras.models.load_model(tmp_path / "trained.keras")
    model.fit(x, y, batch_size=12, epochs=2, shuffle=False, verbose=0)
    for ours, theirs in zip(trained.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=2e-6)
