"""Tests of a node's paths and feed, without a cluster: the cases of TensorFlowOnSpark's tests of TFNode, and more."""

from __future__ import annotations

import getpass
import math
import os
import queue
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_dtf.backend.machine.feed_outlet import Outlet
from jupyter_dtf.backend.task.feed.inlet import Inlet
from jupyter_dtf.compat import TFManager, TFNode
from jupyter_dtf.compat.tensorflow_on_spark import feed_words as words
from jupyter_dtf.compat.tensorflow_on_spark import node_feeding
from jupyter_dtf.compat.tensorflow_on_spark.node_context import TFNodeContext
from jupyter_dtf.compat.tensorflow_on_spark.tf_manager import EndPartition
from jupyter_dtf.errors import InvalidInput, Unavailable

from ...patience import left_s

HERE, USER = os.getcwd(), getpass.getuser()


@pytest.mark.parametrize(
    ("system", "path", "expected"),
    [
        ("hdfs://", "file://a/b", "file://a/b"),
        ("file://", "viewfs://a/b", "viewfs://a/b"),
        ("file://", "/a/b", "file:///a/b"),
        ("hdfs://name:8020", "/a/b", "hdfs://name:8020/a/b"),
        ("file://", "a/b", f"file://{HERE}/a/b"),
        ("hdfs://", "a/b", f"hdfs:///user/{USER}/a/b"),
        ("viewfs://", "a/b", f"viewfs:///user/{USER}/a/b"),
        ("s3://bucket", "a/b", "s3://bucket/a/b"),
    ],
)
def test_paths_get_the_scheme_of_the_file_system(system: str, path: str, expected: str) -> None:
    ctx = TFNodeContext(defaultFS=system, working_dir=HERE)
    assert TFNode.hdfs_path(ctx, path) == ctx.absolute_path(path) == expected


def test_rdma_is_refused() -> None:
    with pytest.raises(Unavailable, match="gRPC"):
        TFNodeContext().start_cluster_server(1, rdma=True)


def test_batches_until_the_end_of_the_feed() -> None:
    manager = TFManager.start(b"abc", ["input", "output"])
    inputs = manager.get_queue("input")
    for number in range(10):
        inputs.put(number)
    inputs.put(None)
    feed = TFNode.DataFeed(manager)
    assert feed.next_batch(2) == [0, 1]
    assert feed.next_batch(4) == [2, 3, 4, 5]
    assert not feed.should_stop()
    assert feed.next_batch(10) == [6, 7, 8, 9]
    assert feed.should_stop()
    inputs.join()  # every item is marked as done
    with pytest.raises(ValueError, match="more times than"):
        inputs.task_done()


def test_batches_end_with_the_partition_where_results_are_wanted() -> None:
    manager = TFManager.start(b"abc", ["input", "output"])
    for item in [1, 2, 3, EndPartition(), 4, EndPartition(), None]:
        manager.get_queue("input").put(item)
    feed = TFNode.DataFeed(manager, False)
    assert feed.next_batch(2) == [1, 2]
    assert feed.next_batch(2) == [3]
    feed.batch_results([1, 4, 9])
    with pytest.raises(AssertionError, match="got 1 for 0"):
        feed.batch_results([16])
    assert feed.next_batch(2) == [4]
    assert feed.next_batch(2) == []
    assert feed.should_stop()
    assert [manager.get_queue("output").get() for _ in range(3)] == [1, 4, 9]


def test_columns_become_tensors_in_the_order_of_their_names() -> None:
    manager = TFManager.start(b"abc", ["input", "output"])
    for row in [(1, "a"), (2, "b"), None]:
        manager.get_queue("input").put(row)
    feed = TFNode.DataFeed(manager, input_mapping={"label": "y_", "image": "x"})
    assert feed.next_batch(5) == {"x": [1, 2], "y_": ["a", "b"]}


def test_only_queues_of_the_cluster() -> None:
    manager = TFManager.start(b"abc", ["input"])
    with pytest.raises(InvalidInput, match="one of input, got 'output'"):
        TFNode.DataFeed(manager)
    with pytest.raises(queue.Empty):
        manager.get_queue("input").get(block=False)


def test_what_is_fed_is_consumed_with_its_last_item(tmp_path: Path) -> None:
    """It counts as consumed before the next batch is requested, because the program may stop there."""
    with Inlet(tmp_path / "worker-0.feed") as inlet, Outlet(inlet.path, 60) as outlet:
        manager = TFManager.TFManager([*words.QUEUES, words.CONTROL], inlet)
        feed = TFNode.DataFeed(manager, False)
        outlet.put("input", words.Piece(7, ["a", "b"], False))
        outlet.put("input", words.Piece(7, ["c"], True))
        outlet.put("input", words.Piece(8, ["d"], True))
        assert feed.next_batch(3) == ["a", "b", "c"]
        assert outlet.take(words.consumed("input"), 1) == [7]
        feed.batch_results(["A", "B", "C"])
        assert outlet.take(words.OUTPUT, 3) == ["A", "B", "C"]
        feed.terminate()
        assert not outlet.put("input", words.Piece(9, ["e"], True))
        assert outlet.take(words.consumed("input"), 1) == []
        assert words.left(inlet.path, "input") == words.Standing("terminating")
        assert manager.get("state") == "terminating"
        # The node's other queues continue.
        assert words.left(inlet.path) is None and words.left(inlet.path, "error") is None
        assert outlet.put("error", words.Piece(1, ["f"], True))
        assert TFNode.DataFeed(manager, False, "error").next_batch(1) == ["f"]
        assert outlet.take(words.consumed("error"), 1) == [1]


def test_a_node_that_listens_late_hears_of_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, has_looked = tmp_path / "ps-0.feed", threading.Event()
    monkeypatch.setattr(
        node_feeding, "time", SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: has_looked.set())
    )
    place: Any = SimpleNamespace(inlet=lambda _task: path)
    ending = threading.Thread(target=node_feeding.end, args=(place, "ps:0", [words.CONTROL], math.inf), daemon=True)
    ending.start()
    assert has_looked.wait(left_s())
    with Inlet(path) as inlet:
        manager = TFManager.TFManager([*words.QUEUES, words.CONTROL], inlet)
        assert manager.get_queue(words.CONTROL).get() is None
        ending.join(left_s())


def test_a_node_that_waits_for_data_hears_of_a_stop(tmp_path: Path) -> None:
    stop = threading.Event()
    with Inlet(tmp_path / "worker-0.feed") as inlet:
        feed = TFNode.DataFeed(TFManager.TFManager(words.QUEUES, inlet, stop))
        threading.Timer(0.05, stop.set).start()
        assert feed.next_batch(1) == []
        assert feed.should_stop()
