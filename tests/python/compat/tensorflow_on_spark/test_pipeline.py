"""Tests of parameters and namespaces as in TensorFlowOnSpark's own tests, and of an estimator on a real cluster."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pandas as pd
import pytest

from jupyter_dtf.client.session import session
from jupyter_dtf.compat import SparkContext
from jupyter_dtf.compat.tensorflow_on_spark.pipeline import Namespace, TFEstimator, TFModel, TFParams
from jupyter_dtf.compat.tensorflow_on_spark.pipeline_params import HasBatchSize, HasSteps
from jupyter_dtf.errors import InvalidInput, Unavailable

cloudpickle.register_pickle_by_value(sys.modules[__name__])

VALUES = {"string": "foo", "integer": 1, "float": 3.14, "array": [1, 2, 3], "map": {"a": 1}}


@pytest.mark.parametrize("given", [VALUES, Namespace(VALUES), argparse.Namespace(**VALUES)])
def test_namespace(given: Any) -> None:
    made = Namespace(given)
    assert (made.string, made.integer, made.float, made.array, made.map) == tuple(VALUES.values())
    assert "string" in made
    assert "extra" not in made
    assert made == Namespace(VALUES)
    with pytest.raises(AttributeError, match="extra"):
        made.extra  # noqa: B018


def test_namespace_of_arguments() -> None:
    arguments = ["--foo", "1", "--bar"]
    assert Namespace(arguments).argv == arguments
    assert list(Namespace(arguments)) == arguments
    assert cloudpickle.loads(cloudpickle.dumps(Namespace(arguments))) == arguments
    with pytest.raises(InvalidInput, match="got int"):
        Namespace(3)


class Both(TFParams, HasBatchSize, HasSteps):
    pass


def test_parameters_go_before_arguments() -> None:
    both = Both()
    both.args = Namespace({"a": 1, "b": 2, "steps": 5})
    both.setBatchSize(10).setSteps(100)
    assert both.merge_args_params() == Namespace({"a": 1, "b": 2, "batch_size": 10, "steps": 100})
    assert both.copy({Both.steps: 7}).getSteps() == 7
    assert both.getSteps() == 100
    with pytest.raises(InvalidInput, match="`batch_size` must be an integer >= 0, got 'ten'"):
        both.setBatchSize("ten")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="'batch_size' must be set"):
        Both().getBatchSize()


def train(args: Any, ctx: Any) -> None:
    """Fit a linear regression, with steps in which all nodes take part."""
    import keras
    import tensorflow as tf
    from tensorflowonspark import compat  # type: ignore[import-not-found]

    import jupyter_dtf as dtf

    feed = ctx.get_data_feed(input_mapping=args.input_mapping)

    def rows() -> Any:
        while not feed.should_stop():
            batch = feed.next_batch(args.batch_size)
            if len(batch["x"]) == args.batch_size:
                yield batch["x"], batch["y_"]

    shapes = (tf.TensorSpec((None, 2)), tf.TensorSpec((None, 1)))
    dataset = tf.data.Dataset.from_generator(rows, output_signature=shapes)
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((2,), name="features"), keras.layers.Dense(1)])
    model.compile(dtf.DistributedOptimizer(keras.optimizers.Adam(0.2)), loss="mse")
    model.fit(dataset, steps_per_epoch=args.steps, verbose=0)
    compat.export_saved_model(model, args.export_dir, ctx.job_name == "chief")
    feed.terminate()


def test_an_estimator_and_its_model(tmp_path: Path) -> None:
    random = np.random.default_rng(1234)
    features = random.random((1000, 2))
    weights = np.array([3.14, 1.618])
    frame = pd.DataFrame({"col1": features.tolist(), "col2": (features @ weights)[:, None].tolist()})
    with SparkContext(threads_per_host=1, name="pipeline") as sc:
        rows = sc.parallelize(zip(frame["col1"], frame["col2"], strict=True), 8)
        estimator = (
            TFEstimator(train, {})
            .setInputMapping({"col1": "x", "col2": "y_"})
            .setExportDir(str(tmp_path / "export"))
            .setClusterSize(2)
            .setBatchSize(10)
            .setEpochs(6)
            .setSteps(200)
        )
        with pytest.raises(InvalidInput, match=r"columns of the dataframe \(col1, col2\)"):
            estimator.copy({TFEstimator.input_mapping: {"col3": "x"}}).fit(frame)
        model = estimator.fit(rows.toDF(["col1", "col2"]))
        assert model.getExportDir() == str(tmp_path / "export")

        model.setInputMapping({"c1": "features"}).setOutputMapping({"output_0": "cout"}).setBatchSize(2)
        asked = pd.DataFrame({"c1": [[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]], "c2": [0, 1, 2]})
        answers = model.transform(asked).compute()
        found = np.array(answers["cout"].tolist())[:, 0]
        assert found == pytest.approx([weights.sum(), *weights], abs=0.02)
        with pytest.raises(InvalidInput, match="`output_mapping` must name tensors of output_0"):
            model.setOutputMapping({"dense": "cout"}).transform(asked).compute()
    session().close()


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(Unavailable, match="`export_fn` must be None, because it requires TensorFlow 1"):
        TFEstimator(train, {}, export_fn=train)
    with pytest.raises(Unavailable, match="gRPC"):
        TFEstimator(train, {}).setProtocol("rdma")
    with pytest.raises(InvalidInput, match=r"InputMode\.SPARK"):
        TFEstimator(train, {}).setInputMode(0)
    with pytest.raises(InvalidInput, match="setExportDir"):
        TFModel({}).setInputMapping({"a": "b"}).transform(pd.DataFrame({"a": [1]}))
