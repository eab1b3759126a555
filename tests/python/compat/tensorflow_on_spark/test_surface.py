"""Tests of TensorFlowOnSpark's module names and signatures, and of what importing the modules loads."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from jupyter_dtf import compat
from jupyter_dtf.compat import TFCluster, TFParallel
from jupyter_dtf.errors import Unavailable

SCRIPT = """
import sys
from jupyter_dtf.compat import SparkConf, SparkContext, TFCluster, TFNode, TFParallel, dfutil, pipeline
from jupyter_dtf.compat.tensorflow_on_spark.install import install_as_tensorflowonspark
assert install_as_tensorflowonspark() and install_as_tensorflowonspark()
from tensorflowonspark import TFNode as there, compat
import tensorflowonspark.pipeline
assert there is TFNode and tensorflowonspark.pipeline is pipeline and compat.export_saved_model
assert not {"tensorflow", "dask.dataframe", "pyarrow"} & set(sys.modules), "loaded before it is needed"
try:
    import tensorflowonspark.reservation
except ModuleNotFoundError as error:
    print(error)
"""


def test_its_own_names_lead_here_and_load_nothing_more() -> None:
    said = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert "It has no tensorflowonspark.reservation" in said.stdout


def test_arguments_are_called_as_there() -> None:
    run = "sc map_fun tf_args num_executors num_ps tensorboard input_mode log_dir driver_ps_nodes master_node "
    run += "reservation_timeout queues eval_node release_port"
    assert list(inspect.signature(TFCluster.run).parameters) == run.split()
    methods = {
        "train": "dataRDD num_epochs feed_timeout qname",
        "inference": "dataRDD feed_timeout qname",
        "shutdown": "ssc grace_secs timeout",
    }
    for name, names in methods.items():
        assert list(inspect.signature(getattr(TFCluster.TFCluster, name)).parameters) == ["self", *names.split()]
    parallel = ["sc", "map_fn", "tf_args", "num_executors", "use_barrier"]
    assert list(inspect.signature(TFParallel.run).parameters) == parallel
    assert not hasattr(compat, "reservation")


def test_tensorboard_is_asked_for_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    from jupyter_dtf.client import tensorboard_process

    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(Unavailable, match="pip install tensorboard"):
        tensorboard_process.TensorBoard(None)
