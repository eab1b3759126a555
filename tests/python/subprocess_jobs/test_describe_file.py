"""Describing a model file never runs code that it contains or names, and refuses absurd content with a message."""

from __future__ import annotations

import json
import os
import sys
import zipfile
from pathlib import Path
from typing import Any

import h5py
import keras
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jupyter_dtf.backend.task.describe.layer_graph import describe
from jupyter_dtf.backend.task.describe.saved_graph import FILE
from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.graph import LayerGraph
from jupyter_dtf.subprocess_jobs.describe_file import describe_file, load
from tests.python.backend.task import hostile_files as hostile

pytestmark = pytest.mark.filterwarnings(
    "ignore:__array__ implementation:DeprecationWarning",  # from Keras, when it saves
    "ignore:.*HDF5 file:UserWarning",
)
BOTH = pytest.mark.parametrize("suffix", [".keras", ".h5"])


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "written"


def refused(path: Path, match: str) -> None:
    for read in (describe_file, load):
        with pytest.raises(InvalidInput, match=match) as error:
            read(path)
        assert error.value.field == "path"


def test_a_saved_model_with_an_initializer_that_writes(tmp_path: Path, marker: Path) -> None:
    hostile.saved_model_that_writes(tmp_path / "saved", marker)
    graph = describe_file(tmp_path / "saved")
    assert [(layer.id, layer.kind, layer.parameters) for layer in graph.layers] == [("dense", "Dense", 6)]
    assert not marker.exists()
    tf.saved_model.load(str(tmp_path / "saved"))
    assert marker.exists()  # proves that loading the file would write


@BOTH
def test_a_lambda(suffix: str, tmp_path: Path, marker: Path) -> None:
    path = tmp_path / f"model{suffix}"
    hostile.WRITERS[suffix](path, hostile.lambda_that_writes(marker))
    refused(path, "without being run, got a Lambda")
    assert not marker.exists()


@BOTH
def test_a_module_of_its_own(suffix: str, tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / f"model{suffix}"
    for package in ("hostile_one", "keras_hub"):  # the second is a name that Keras imports
        hostile.WRITERS[suffix](path, hostile.of_module(tmp_path / f"{package}.py", marker))
        refused(path, rf"Keras's own layers, .* got the class 'Layer' of '{package}>Layer'")
        assert not marker.exists() and package not in sys.modules


@BOTH
def test_a_saved_model_that_a_layer_names(suffix: str, tmp_path: Path, marker: Path) -> None:
    hostile.saved_model_that_writes(tmp_path / "saved", marker)
    path = tmp_path / f"model{suffix}"
    hostile.WRITERS[suffix](path, hostile.of_saved_model(tmp_path / "saved"))
    refused(path, "got a TFSMLayer, which runs a SavedModel that it names")
    assert not marker.exists()


@BOTH
def test_what_others_have_registered(suffix: str, tmp_path: Path, marker: Path) -> None:
    @keras.saving.register_keras_serializable(package="there", name="writes")
    def writes(x: Any) -> Any:
        marker.touch()
        return x

    path = tmp_path / f"model{suffix}"
    try:
        hostile.WRITERS[suffix](path, hostile.of_function("there>writes"))
        refused(path, "got the function 'there>writes'")
        assert not marker.exists()
    finally:
        keras.saving.get_custom_objects().pop("there>writes")


@BOTH
def test_a_file_that_a_layer_names(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"model{suffix}"
    hostile.WRITERS[suffix](path, hostile.of_vocabulary(Path("/etc/passwd")))
    refused(path, "the vocabulary of a StringLookup must be a list, got the name of a file: '/etc/passwd'")


@BOTH
@pytest.mark.parametrize(
    "item",
    [
        {"class_name": "deserialize", "config": {"config": hostile.DENSE}},
        {"class_name": "load_model", "module": "keras.models", "config": {"filepath": "x"}, "registered_name": None},
        {"class_name": "Popen", "module": "subprocess", "config": {"args": "true"}, "registered_name": None},
        {**hostile.DENSE, "registered_name": "other>Dense"},
        {**hostile.DENSE, "module": ["keras.layers"]},
        {**hostile.DENSE, "class_name": None},
        {"class_name": "function", "module": "builtins", "config": "while_loop", "registered_name": "while_loop"},
        {"class_name": "function", "module": "os", "config": "system", "registered_name": "system"},
    ],
)
def test_other_names(item: Any, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"model{suffix}"
    hostile.WRITERS[suffix](path, item)
    with pytest.raises(InvalidInput, match="Keras's own layers|class_name must be a string"):
        describe_file(path)


@BOTH
def test_a_layer_larger_than_the_machine(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"model{suffix}"
    hostile.WRITERS[suffix](path, {**hostile.DENSE, "config": {"units": 1 << 40, "use_bias": False}})
    (layer,) = describe_file(path).layers
    assert (layer.parameters, layer.parameter_bytes) == (3 << 40, 12 << 40)
    assert layer.flops == 2 * 3 * (1 << 40)
    with pytest.raises(InvalidInput, match="A model to measure must have at most"):
        load(path)
    hostile.WRITERS[suffix](path, {**hostile.DENSE, "config": {"units": 1 << 60}})
    refused(path, "must be from 0 to 9007199254740992, got ")


@BOTH
@pytest.mark.parametrize(
    ("layer", "match"),
    [
        ({**hostile.DENSE, "config": {"units": "many"}}, "cannot be read"),
        (
            {**hostile.DENSE, "config": {"units": 2, "name": "<b>bold</b>"}},
            "name of a layer must be made of .*<b>",
        ),
        ({**hostile.DENSE, "config": {"units": 2, "name": "\ud800"}}, "name of a layer must be made of"),
        ({**hostile.DENSE, "config": [1, 2]}, "cannot be read"),
        (3, "cannot be read"),
        (None, "cannot be read"),
    ],
)
def test_configurations_that_make_no_sense(layer: Any, match: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"model{suffix}"
    hostile.WRITERS[suffix](path, layer)
    refused(path, match)


def test_texts_that_are_no_configuration(tmp_path: Path) -> None:
    path = tmp_path / "model.keras"
    for content, match in [
        (hostile.zipped(config_json="[" * 100_000), "nested at most|must be JSON"),
        (hostile.zipped(config_json=json.dumps({"a": 0}).replace("0", "[" * 500 + "]" * 500)), "nested at most 400"),
        (hostile.zipped(config_json='{"a": 1' + "0" * 5000 + "}"), "a number must have at most 400 digits"),
        (hostile.zipped(config_json=b" " * (65 << 20)), "must have at most 67108864 bytes, got more"),
        (hostile.zipped(config_json="[]"), "must be a JSON object, got list"),
        (hostile.zipped(config_json="\xff"), "cannot be read|must be JSON"),
        (hostile.zipped(other_json="{}"), "cannot be read"),
        (b"", "cannot be read"),
        (b"PK\3\4" * 100, "cannot be read"),
    ]:
        path.write_bytes(content)
        refused(path, match)


def test_attributes_that_are_no_configuration(tmp_path: Path) -> None:
    path = tmp_path / "model.h5"
    elsewhere = tmp_path / "elsewhere.h5"
    hostile.h5_file(elsewhere, hostile.DENSE)
    for value in (3, [1, 2], "{}", "[" * 100_000):
        with h5py.File(path, "w") as file:
            file.attrs["model_config"] = value
            file["model_weights"] = h5py.ExternalLink(str(elsewhere), "/model_weights")
        refused(path, r"cannot be read|must be a single string|must be a string|nested")
    with h5py.File(path, "w") as file:
        file["model_weights"] = h5py.ExternalLink(str(elsewhere), "/model_weights")
    refused(path, "a model's configuration, got only weights")


@pytest.mark.parametrize("name", ["pipe.keras", "pipe.h5", f"saved/{FILE}"])
def test_a_pipe_is_not_waited_for(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    with pytest.raises(InvalidInput, match="regular file|must be a SavedModel"):
        describe_file(path if path.suffix != ".pb" else path.parent)


def test_a_device_is_not_read(tmp_path: Path) -> None:
    for suffix in (".keras", ".h5"):
        path = tmp_path / f"zero{suffix}"
        path.symlink_to("/dev/zero")
        refused(path, "got 'zero.*it is not a regular file")


def small() -> Any:
    inputs = keras.Input((4, 3))
    x = keras.layers.LSTM(5, name="lstm")(inputs)
    x = keras.layers.Dense(300, activation=keras.ops.silu, name="dense")(x)
    x = keras.layers.BatchNormalization(name="norm")(keras.layers.Dropout(0.5, name="drop")(x))
    y = keras.layers.Dense(300, name="skip", kernel_regularizer="l2")(x) + x
    model = keras.Model(inputs, keras.layers.Dense(2, name="head")(y), name="small")
    rate = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
    model.compile(keras.optimizers.Adam(rate), own_loss)
    return model


def own_loss(truth: Any, guess: Any) -> Any:
    return keras.ops.mean(guess - truth)


def test_an_honest_file_is_described_as_the_model_is(tmp_path: Path) -> None:
    """This also works with a custom loss, which is not needed for a description."""
    model = small()
    model.save(tmp_path / "small.keras")
    assert describe_file(tmp_path / "small.keras") == describe(model)


def test_an_honest_h5_file(tmp_path: Path) -> None:
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(4, 3, activation="relu", name="conv"),
            keras.layers.Flatten(name="flat"),
            keras.layers.Dense(200, kernel_regularizer=keras.regularizers.L2(0.1), name="dense"),
        ],
        name="small",
    )
    model.compile("adam", keras.losses.MeanSquaredError())
    model.save(tmp_path / "small.h5")
    assert describe_file(tmp_path / "small.h5") == describe(model)
    loaded = load(tmp_path / "small.h5")
    assert loaded.compiled and isinstance(loaded.loss, keras.losses.MeanSquaredError)


@pytest.mark.parametrize("name", ["model.keras", "model.h5", "saved"])
def test_the_inputs_of_a_file(name: str, tmp_path: Path) -> None:
    """This includes an input that was not given a name."""
    pixels = keras.Input((8,), name="pixels", dtype="uint8")
    other = keras.Input((2, 2))
    x = keras.layers.Rescaling(1 / 255, name="scale")(pixels)
    x = keras.layers.Add(name="sum")([keras.layers.Dense(4, name="dense")(x), keras.layers.Flatten(name="flat")(other)])
    model = keras.Model([pixels, other], keras.layers.Dense(2, name="head")(x))
    path = tmp_path / name
    if name == "saved":
        model.export(path, verbose=False)
    else:
        model.save(path)
    found = {given.name: given for given in describe_file(path).inputs}
    assert (found["pixels"].shape, found["pixels"].dtype, found["pixels"].targets) == ([1, 8], "uint8", ["scale"])
    (second,) = (given for name, given in found.items() if name != "pixels")
    assert (second.shape, second.dtype, second.targets) == ([1, 2, 2], "float32", ["flat"])
    if name != "saved":
        assert describe_file(path).inputs == describe(model).inputs


def test_a_stateful_model(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((4, 3), batch_size=2), keras.layers.LSTM(70, stateful=True, name="lstm")])
    model.save(tmp_path / "stateful.keras")
    graph, expected = describe_file(tmp_path / "stateful.keras"), describe(model)
    assert (graph.layers, graph.edges, graph.inputs) == (expected.layers, expected.edges, expected.inputs)
    assert graph.inputs[0].shape == [2, 4, 3]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=8)), min_size=1, max_size=4), kind=st.integers(0, 2))
def test_damaged_files(cuts: list[tuple[float, bytes]], kind: int, tmp_path: Path) -> None:
    """Any bytes give either a graph or a short error message."""
    path, within = _sound(tmp_path)[kind]
    sound = within.read_bytes()
    damaged = bytearray(sound)
    for where, new in cuts:
        at = int(where * len(damaged))
        damaged[at : at + len(new)] = new
    within.write_bytes(damaged)
    said = ""
    try:
        assert isinstance(describe_file(path), LayerGraph)
    except InvalidInput as error:
        said = str(error)
    finally:
        within.write_bytes(sound)
    assert len(said) < 2_000


def _sound(directory: Path) -> list[tuple[Path, Path]]:
    """Return the path of an intact model in each format, with that of the file that contains its description."""
    paths = [directory / "sound.keras", directory / "sound.h5", directory / "sound"]
    if not paths[2].exists():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2), keras.layers.Dense(2)])
        model.save(paths[0])
        model.save(paths[1])
        model.export(paths[2], verbose=False)
        with zipfile.ZipFile(paths[0]) as archive:
            content = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(paths[0], "w") as archive:  # uncompressed, so that damage reaches the content
            for name, data in content.items():
                archive.writestr(name, data)
    return [(paths[0], paths[0]), (paths[1], paths[1]), (paths[2], paths[2] / FILE)]
