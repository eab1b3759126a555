"""Tests of TFCluster on a real cluster: the cases of TensorFlowOnSpark's own tests, and failures of feeding."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cloudpickle
import dask
import dask.bag as db
import pytest

import jupyter_dtf as dtf
from jupyter_dtf.client.session import session
from jupyter_dtf.compat import SparkConf, SparkContext, TFCluster, TFNode, TFParallel
from jupyter_dtf.compat.tensorflow_on_spark import node_feeding
from jupyter_dtf.errors import Conflict, InvalidInput, RunFailed, Unavailable
from jupyter_dtf.schema.run import RunState

from ...patience import until

pytestmark = pytest.mark.module_directories
cloudpickle.register_pickle_by_value(sys.modules[__name__])

SPARK = TFCluster.InputMode.SPARK


@pytest.fixture(scope="module")
def sc(no_process_left_by_module: None) -> Iterator[Any]:
    """Start a context with two tasks on one Dask worker with a single thread: whatever blocks it blocks everything."""
    with SparkContext(conf=SparkConf().setAppName("tests"), threads_per_host=1, name="on-spark") as context:
        yield context
    session().close()


def squares(args: Any, ctx: Any) -> None:
    import tensorflow as tf

    feed = TFNode.DataFeed(ctx.mgr, False)
    while not feed.should_stop():
        batch = feed.next_batch(batch_size=10)
        if batch:
            feed.batch_results(tf.math.square(batch).numpy())


def counted(args: Any, ctx: Any) -> int:
    feed = ctx.get_data_feed()
    count = 0
    while not feed.should_stop():
        count += len(feed.next_batch(7))
    return count


def test_a_program_on_every_node(sc: Any) -> None:
    def add(args: Any, ctx: Any) -> tuple[Any, ...]:
        import tensorflow as tf

        assert (tf.constant(args["x"]) + tf.constant(args["y"])).numpy() == 3
        ctx.release_port()
        place = (ctx.job_name, ctx.task_index, ctx.executor_id, ctx.worker_num, ctx.num_workers, ctx.working_dir)
        return *place, sorted(ctx.cluster_spec), "TF_CONFIG" in os.environ

    cluster = TFCluster.run(sc, add, tf_args={"x": 1, "y": 2}, num_executors=2, num_ps=0)
    cluster.shutdown()
    here = os.getcwd()
    assert cluster.run.result() == [
        ("worker", 0, 0, 0, 2, here, ["worker"], False),
        ("worker", 1, 1, 1, 2, here, ["worker"], False),
    ]
    assert cluster.tensorboard_url() is None
    with pytest.raises(AssertionError, match=r"InputMode\.SPARK"):
        cluster.train(sc.parallelize([1]))


def test_jobs_that_serve_end_with_the_others(sc: Any) -> None:
    """A ps and an evaluator that never return end with the other tasks. The chief may have its old name, master."""

    def program(args: Any, ctx: Any) -> Any:
        if ctx.job_name in ("ps", "evaluator"):
            threading.Event().wait()
        config = json.loads(os.environ["TF_CONFIG"])
        return config["task"], config["environment"], sorted(config["cluster"]), ctx.executor_id, sys.argv

    cluster = TFCluster.run(sc, program, ["prog", "--x"], 4, 1, master_node="master", eval_node=True)
    cluster.shutdown()
    jobs = ["evaluator", "master", "ps", "worker"]
    assert cluster.run.result()["chief:0"] == ({"type": "master", "index": 0}, "cloud", jobs, 1, ["prog", "--x"])
    assert cluster.run.result()["worker:0"] == ({"type": "worker", "index": 0}, "cloud", jobs, 3, ["prog", "--x"])


def test_inference_in_order(sc: Any) -> None:
    """There are more partitions than nodes and threads. Their sizes differ, and one is empty."""
    bag = db.from_delayed(_parts([[[x] for x in range(n)] for n in (25, 0, 1, 10, 30, 3)]))
    cluster = TFCluster.run(sc, squares, {}, 2, 0, input_mode=SPARK)
    out = cluster.inference(bag)
    assert [[value[0] for value in part] for part in _computed(sc, out)] == [
        [x * x for x in range(n)] for n in (25, 0, 1, 10, 30, 3)
    ]
    rdd = cluster.inference(sc.parallelize([[x] for x in range(1000)], 10))
    assert rdd.sum() == sum(x * x for x in range(1000))
    cluster.shutdown()
    with pytest.raises(Conflict, match="the run has ended"):
        rdd.count()


def _parts(parts: list[list[Any]]) -> list[Any]:
    from dask import delayed

    return [delayed(part) for part in parts]


def _computed(sc: Any, bag: Any) -> list[Any]:
    found: list[Any] = sc.compute(bag.to_delayed())
    return [list(part) for part in found]


def test_every_item_of_every_epoch_is_fed_once(sc: Any) -> None:
    """It works with a ``dtf.Cluster`` and with a Dask client, and with uneven partitions, one of which is empty."""
    bag = db.from_delayed(_parts([list(range(n)) for n in (100, 0, 1, 50, 3)]))
    for given in (sc.cluster, sc.client):
        cluster = TFCluster.run(given, counted, {}, 2, 0, input_mode=SPARK)
        cluster.train(bag, num_epochs=3)
        cluster.shutdown(grace_secs=1)
        assert sum(cluster.run.result()) == 3 * 154


def test_nodes_that_wait_for_each_other_are_fed_at_the_same_time(sc: Any) -> None:
    """Both are fed by one Dask worker with a single thread, which neither feed may occupy."""

    def program(args: Any, ctx: Any) -> int:
        feed = ctx.get_data_feed()
        steps = 0
        while feed.next_batch(5):
            dtf.barrier()
            steps += 1
            if steps == args["steps"]:
                feed.terminate()
                break
        return steps

    cluster = TFCluster.run(sc, program, {"steps": 6}, 2, 0, input_mode=SPARK)
    # Ten times as much as the nodes consume: the rest is dropped.
    cluster.train(sc.parallelize(range(100), 10), num_epochs=6)
    cluster.shutdown()
    assert cluster.run.result() == [6, 6]


def test_a_queue_that_is_terminated_is_that_one_alone(sc: Any) -> None:
    """A node that has terminated its training queue still answers from another queue."""

    def program(args: Any, ctx: Any) -> int:
        ctx.get_data_feed().terminate()
        more = ctx.get_data_feed(train_mode=False, qname_in="more")
        answered = 0
        while not more.should_stop():
            batch = more.next_batch(4)
            more.batch_results([-x for x in batch])
            answered += len(batch)
        return answered

    queues = ["input", "output", "error", "more"]
    cluster = TFCluster.run(sc, program, {}, 2, 0, input_mode=SPARK, queues=queues)
    cluster.train(sc.parallelize(range(100), 4), 2)
    answers = cluster.inference(sc.parallelize(range(40), 4), qname="more")
    assert answers.collect() == [-x for x in range(40)]
    cluster.shutdown()
    assert sum(cluster.run.result()) == 40


def test_who_feeds_nodes_that_have_ended_by_themselves_is_done(sc: Any) -> None:
    """``train`` also returns if the run has ended. On a Dask worker, feeding an ended run raises ``Gone``."""

    def program(args: Any, ctx: Any) -> None:
        feed = ctx.get_data_feed()
        feed.next_batch(5)
        feed.terminate()

    cluster = TFCluster.run(sc, program, {}, 2, 0, input_mode=SPARK)
    numbers = sc.parallelize(range(100), 4)
    cluster.train(numbers, 1)
    cluster.run.wait()
    cluster.train(numbers, 1)
    cluster.shutdown()
    late = sc.client.submit(node_feeding.train, [1], 0, cluster._place, "worker:0", "input", 60, pure=False)
    with pytest.raises(node_feeding.Gone, match="the run has ended"):
        late.result()


def test_shutdown_waits_for_no_dask_worker_beyond_its_time_or_the_run(sc: Any, tmp_path: Path) -> None:
    def busy(path: Path) -> None:
        while not path.exists():
            os.sched_yield()

    blocked = sc.client.submit(busy, tmp_path / "free", pure=False)  # occupies the only thread
    clusters = [TFCluster.run(sc, counted, {}, 1, 0) for _ in range(2)]
    for cluster in clusters:
        cluster.input_mode = SPARK  # waiting for the nodes to listen needs a thread as well
    try:
        with pytest.raises(TimeoutError, match=r"timeout: .* within 1 s, and were stopped"):
            clusters[0].shutdown(timeout=1)
        with ThreadPoolExecutor() as pool:
            ending = pool.submit(clusters[1].shutdown, timeout=-1)
            until(lambda: sc.client.processing() and len(_pinned(sc)) > 0, "the wish to end the feed")
            clusters[1].run.stop(now=True)
            with pytest.raises(dtf.RunStopped):
                ending.result()
    finally:
        (tmp_path / "free").touch()
        blocked.result()


def _pinned(sc: Any) -> list[str]:
    return [key for keys in sc.client.processing().values() for key in keys if key.startswith("end-")]


def test_a_failure_while_it_is_fed_reaches_the_caller(sc: Any) -> None:
    def program(args: Any, ctx: Any) -> None:
        ctx.get_data_feed().next_batch(10)
        raise ArithmeticError("made up, while it is fed")

    cluster = TFCluster.run(sc, program, {}, 2, 0, input_mode=SPARK)
    with pytest.raises(RunFailed, match=r"ArithmeticError: made up, while it is fed") as failed:
        cluster.train(sc.parallelize(range(1000), 10), 1)
    assert "next_batch(10)" not in failed.value.traceback.splitlines()[-1]
    assert 'raise ArithmeticError("made up, while it is fed")' in failed.value.traceback
    with pytest.raises(RunFailed, match="made up"):
        cluster.shutdown()

    cluster = TFCluster.run(sc, program, {}, 1, 0, input_mode=SPARK)
    with pytest.raises(RunFailed, match=r"ArithmeticError: made up, while it is fed"):
        cluster.inference(sc.parallelize([[x] for x in range(100)], 4)).count()
    with pytest.raises(RunFailed, match="made up"):
        cluster.shutdown()


def test_a_failure_after_the_feed_reaches_shutdown(sc: Any) -> None:
    def program(args: Any, ctx: Any) -> None:
        squares(args, ctx)
        raise ArithmeticError("made up, after the feed")

    cluster = TFCluster.run(sc, program, {}, 2, 0, input_mode=SPARK)
    assert cluster.inference(sc.parallelize([[x] for x in range(100)], 4)).count() == 100
    with pytest.raises(RunFailed, match="ArithmeticError: made up, after the feed"):
        cluster.shutdown(grace_secs=5)


def test_a_partition_that_is_not_consumed_is_named(sc: Any) -> None:
    def program(args: Any, ctx: Any) -> None:
        feed = ctx.get_data_feed()
        feed.next_batch(args)
        ctx.dtf.stop_requested.wait()

    cluster = TFCluster.run(sc, program, 25, 1, 0, input_mode=SPARK)
    with pytest.raises(Conflict, match=r"worker:0 has not consumed partition 2 \(10 items\) within 1 s"):
        cluster.train(sc.parallelize(range(50), 5), 1, feed_timeout=1)
    assert cluster.run.info.state is RunState.STOPPED  # nothing is left running


def test_too_few_results_are_told(sc: Any) -> None:
    def program(args: Any, ctx: Any) -> None:
        feed = ctx.get_data_feed(train_mode=False)
        while not feed.should_stop():
            feed.batch_results(feed.next_batch(10)[1:])

    cluster = TFCluster.run(sc, program, {}, 1, 0, input_mode=SPARK)
    short = r"partition 0 \(10 items\).*fewer results than there are items"
    with pytest.raises(Conflict, match=short):
        cluster.inference(sc.parallelize(range(10), 1), feed_timeout=1).collect()
    # The next partition would get results of the first. When it comes, the node may have failed, because that feed has
    # ended, and the run may have ended as well.
    refused = (
        rf"Partition 0 was not fed, because an earlier partition failed.*{short}"
        r"|disconnected before the end of its feed|could not be fed, because the run has ended"
    )
    with pytest.raises((Conflict, RunFailed), match=refused):
        cluster.inference(sc.parallelize(range(5), 1)).collect()
    with contextlib.suppress(RunFailed):  # the node may have seen its feeder disconnect, or the end of the feed
        cluster.shutdown()
    assert cluster.run.info.state.is_final


def test_a_partition_that_cannot_be_computed_reaches_the_caller(sc: Any) -> None:
    def broken(x: int) -> float:
        return 1 / (x - 17)

    cluster = TFCluster.run(sc, counted, {}, 2, 0, input_mode=SPARK)
    with pytest.raises(ZeroDivisionError):
        cluster.train(sc.parallelize(range(40), 4).map(broken), 1)
    assert cluster.run.info.state.is_final


def test_what_cannot_be_is_refused(sc: Any) -> None:
    refused: list[tuple[tuple[Any, ...], type[Exception], str]] = [
        ((2, 2), InvalidInput, "at least one worker or master"),
        ((0, 0), InvalidInput, "`num_executors` must be an integer >= 1"),
        ((2, 0, False, 7), InvalidInput, "`input_mode` must be one of InputMode"),
        ((2, 1, False, SPARK, None, True), InvalidInput, "`driver_ps_nodes` must be False unless"),
        ((2, 0, False, SPARK, None, False, "boss"), InvalidInput, "`master_node` must be chief or master"),
    ]
    for arguments, error, words in refused:
        with pytest.raises(error, match=words):
            TFCluster.run(sc, counted, {}, *arguments)
    with pytest.raises(InvalidInput, match="`sc` must be a dtf.Cluster"):
        TFCluster.run(object(), counted, {}, 1, 0)
    with pytest.raises(Conflict, match="A SparkContext already exists"):
        SparkContext(sc.cluster)
    with pytest.raises(Unavailable, match="an fsspec driver"):
        sc.textFile("hdfs://nowhere/file")
    assert SparkContext.getOrCreate() is sc


def test_parallel_instances(sc: Any, tmp_path: Path) -> None:
    def program(args: Any, ctx: Any) -> None:
        assert "TF_CONFIG" not in os.environ
        assert ctx.cluster_spec == {}
        Path(args, f"{ctx.worker_num}-of-{ctx.num_workers}").touch()

    TFParallel.run(sc, program, str(tmp_path), 2)
    with pytest.raises(Unavailable, match="got 3, but the cluster .* has 2 tasks"):
        TFParallel.run(sc, program, str(tmp_path), 3)
    TFParallel.run(sc, program, str(tmp_path), 3, use_barrier=False)
    names = ["0-of-2", "0-of-3", "1-of-2", "1-of-3", "2-of-3"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_collections(sc: Any, tmp_path: Path) -> None:
    numbers = sc.parallelize(range(10), 3)
    assert numbers.getNumPartitions() == 3
    assert numbers.map(lambda x: x * 2).filter(lambda x: x > 4).collect() == list(range(6, 20, 2))
    assert numbers.zip(numbers.map(str)).take(4) == [(0, "0"), (1, "1"), (2, "2"), (3, "3")]
    assert (numbers.sum(), numbers.count(), numbers.reduce(max), numbers.first()) == (45, 10, 9, 0)
    assert numbers.union(numbers).getNumPartitions() == 6
    assert sorted(numbers.mapPartitions(lambda part: [sum(part)]).collect()) == [3, 12, 30]
    assert dask.is_dask_collection(sc.parallelize([[dask.delayed(1)]], 1).first()[0])  # items are not inspected
    assert numbers.flatMap(lambda x: [x] * (x % 2)).collect() == [1, 3, 5, 7, 9]
    with pytest.raises(InvalidInput, match="partitions with the same number of items"):
        numbers.zip(numbers.filter(lambda x: x != 5)).collect()

    there = tmp_path / "text"
    numbers.map(lambda x: f"{x},{x}").saveAsTextFile(str(there))
    assert sorted(path.name for path in there.iterdir()) == ["_SUCCESS", "part-00000", "part-00001", "part-00002"]
    assert sc.textFile(str(there)).collect() == [f"{x},{x}" for x in range(10)]
    with pytest.raises(Conflict, match="new directory"):
        numbers.saveAsTextFile(str(there))
    numbers.foreachPartition(lambda part: (tmp_path / f"seen-{next(part)}").touch())
    assert len(list(tmp_path.glob("seen-*"))) == 3
