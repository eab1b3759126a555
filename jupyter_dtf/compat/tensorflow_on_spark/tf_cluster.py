"""TensorFlowOnSpark's ``TFCluster``: a cluster of nodes, fed from Dask collections."""

from __future__ import annotations

import functools
import logging
import math
import os
import queue as queues
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...client.run import Run
from ...client.session import session
from ...client.tensorboard_process import TensorBoard
from ...client.waiting import show_until_sent
from ...errors import Conflict, InvalidInput, RunFailed, Unavailable
from ...schema.arguments import check_integer
from ...schema.run import RunInfo, RunState, TaskState
from . import feed_words as words
from . import node_feeding, nodes
from .bags import as_bag, like
from .node_program import SERVING, NodePlan
from .node_program import run as node_program
from .train_feed import TrainFeed

logger = logging.getLogger(__name__)

EPOCHS = 10
"""The number of times that the data is fed if ``num_epochs`` is 0."""
_END_S = 60.0
"""The time, in seconds, within which the run must report the failure of a node."""
_OVER = (TaskState.FINISHED, TaskState.SUCCEEDED)


class InputMode:
    """The values of ``input_mode``: which program reads the data."""

    TENSORFLOW = 0
    """The program itself reads the data."""
    SPARK = 1
    """Dask reads the data, and feeds the nodes from a collection."""


class TFCluster:
    """A running cluster of nodes, created by ``run``.

    Its attribute ``run`` is the run that ``dtf.Cluster.run`` returned.
    """

    def __init__(self, sc: Any, run: Run, plan: NodePlan, input_mode: int, board: TensorBoard | None) -> None:
        self.sc = sc
        self.run = run
        self.input_mode = input_mode
        self.queues = list(plan.queues)
        self.defaultFS = plan.default_fs
        self.working_dir = plan.working_dir
        self.num_executors = sum(map(len, plan.executors.values()))
        self._cluster = nodes.cluster_of(sc)
        self._place = node_feeding.Place(nodes.token_of(self._cluster), run.id)
        self._board = board

    @property
    def client(self) -> Any:
        """The Dask client that feeds the nodes. Results of ``inference`` must be computed with it."""
        return nodes.client_of(self.sc, self._cluster)

    @property
    def cluster_info(self) -> list[dict[str, Any]]:
        """A dict for each node: ``job_name`` and ``task_index`` in the run, ``host``, ``port`` and ``pid``."""
        return [
            {
                "job_name": task.task.partition(":")[0],
                "task_index": int(task.task.partition(":")[2]),
                "host": task.endpoint.rpartition(":")[0],
                "port": int(task.endpoint.rpartition(":")[2] or 0),
                "pid": task.pid,
            }
            for task in self.run.info.tasks
        ]

    def train(
        self,
        dataRDD: Any,
        num_epochs: int = 0,
        feed_timeout: float = 600,
        qname: str = words.INPUT,
    ) -> None:
        """Feed data to the nodes that train, until all of it is consumed or no node accepts more.

        A partition is sent to any node that has consumed its previous partition. Nodes accept no more data after
        ``terminate``, or when their programs end.

        Args:
            dataRDD: A Dask bag, a Dask dataframe, or an RDD of a ``SparkContext``.
            num_epochs: The number of times that the data is fed. 0 means 10 times.
            feed_timeout: The longest time for consuming a partition, in seconds.
            qname: The name of the queue.

        Raises:
            RunFailed: If a node fails, with its traceback.
            Conflict: If a partition is not consumed in time. The error names it, and the run is stopped.
            InvalidInput: For invalid arguments.
        """
        self._check_feed(dataRDD, qname, feed_timeout)
        num_epochs = check_integer(num_epochs, "num_epochs", 0)
        if self._has_ended():
            logger.info("The run has ended and accepts no more data. All data is dropped")
            return
        partitions = as_bag(dataRDD).to_delayed()

        def passes() -> Iterator[tuple[int, Any]]:
            for _ in range(num_epochs or EPOCHS):
                yield from enumerate(partitions)

        try:
            feed = TrainFeed(self.client, self._place, self._fed_hosts(), self._has_ended, self._on_end)
            is_complete = feed.feed(passes(), qname, feed_timeout)
        except BaseException as error:
            self._fail(error)
            if isinstance(error, node_feeding.Gone) and self.run.info.state is RunState.SUCCEEDED:
                is_complete = False  # the nodes have ended because none of them accepts more data
            else:
                raise
        if not is_complete:
            self._raise_if_failed()
            logger.info("The nodes accept no more data. The remaining data is dropped")

    def inference(self, dataRDD: Any, feed_timeout: float = 600, qname: str = words.INPUT) -> Any:
        """Return the results of feeding data to the nodes: one for each item, in order, in the same partitions.

        The results are computed on request, and must be computed with ``client``. The computation raises RunFailed with
        a node's traceback; Conflict, which names the partition, if results do not arrive in time; and AssertionError if
        there are too few results.

        Args:
            dataRDD: A Dask bag, a Dask dataframe, or an RDD of a ``SparkContext``.
            feed_timeout: The longest time for a partition, in seconds.
            qname: The name of the queue.

        Returns:
            An RDD if ``dataRDD`` is one, otherwise a bag.

        Raises:
            InvalidInput: For invalid arguments.
            Conflict: If the host of a node has left the cluster.

        Example:
            >>> results = cluster.inference(bag).compute(scheduler=cluster.client)
        """
        import dask.bag as db
        from dask import delayed

        self._check_feed(dataRDD, qname, feed_timeout)
        hosts = self._fed_hosts()
        infer = delayed(node_feeding.infer, pure=False)
        addresses = sorted(set(hosts.values()))
        parts = [
            infer(part, number, self._place, sorted(hosts), addresses, qname, feed_timeout)
            for number, part in enumerate(as_bag(dataRDD).to_delayed())
        ]
        return like(dataRDD, db.from_delayed(parts), self.sc)

    def shutdown(self, ssc: Any = None, grace_secs: float = 0, timeout: float = 259200) -> None:
        """End the feed, wait until the programs of all training nodes have ended, then end the serving nodes.

        The serving nodes are those of the jobs ``ps`` and ``evaluator``.

        Args:
            ssc: Must be None, because there are no streaming contexts.
            grace_secs: Accepted but ignored, because this method waits until programs end on their own.
            timeout: The seconds after which the run is stopped. -1 means never.

        Raises:
            RunFailed: If a node fails, with its traceback.
            RunStopped: If the run was stopped.
            TimeoutError: After ``timeout`` seconds.
            Unavailable: If ``ssc`` is given.
        """
        if ssc is not None:
            raise Unavailable(
                "`ssc` must be None, because streams are not supported. Feed batches one by one with train()"
            )
        ends = None if timeout < 0 else time.monotonic() + timeout
        try:
            if self.input_mode == InputMode.SPARK:
                names = [name for name in self.queues if name not in (words.OUTPUT, words.ERROR)]
                self._tell_end(self._hosts(), names, ends, timeout)
            self._wait(lambda info: info.state.is_final or _trained(info), ends, timeout)
            self._tell_end(self._hosts(serving=True), [words.CONTROL], ends, timeout)
            self._wait(lambda info: info.state.is_final, ends, timeout)
        finally:
            self._close()
        self.run.raise_for_state()

    def tensorboard_url(self) -> str | None:
        """Return the URL of TensorBoard on the machine of this process, or None if it was not requested."""
        return self._board.url if self._board is not None else None

    # -- internals ----------------------------------------------------------------------------------------------

    def _check_feed(self, data: Any, qname: str, feed_timeout: float) -> None:
        if self.input_mode != InputMode.SPARK:
            raise AssertionError("Data can only be fed to a cluster that was started with input_mode=InputMode.SPARK")
        if qname not in self.queues:
            raise AssertionError(f"`qname` must be one of {', '.join(self.queues)}, got {qname!r}")
        if not feed_timeout > 0:
            raise InvalidInput(f"`feed_timeout` must be a number of seconds > 0, got {feed_timeout!r:.100}")
        if hasattr(data, "foreachRDD"):
            raise Unavailable("`dataRDD` must not be a stream. Feed batches one by one with train()")
        self._raise_if_failed()

    def _tasks(self, serving: bool) -> list[str]:
        return [task.task for task in self.run.info.tasks if (task.task.partition(":")[0] in SERVING) is serving]

    def _hosts(self, serving: bool = False) -> dict[str, str]:
        """Return the addresses of the nodes' Dask workers, keyed by task. A node is omitted if its host has left."""
        addresses = {host.name: host.address for host in self._cluster.info.hosts}
        names = {task.task: task.host for task in self.run.info.tasks}
        return {task: addresses[names[task]] for task in self._tasks(serving) if names[task] in addresses}

    def _fed_hosts(self) -> dict[str, str]:
        """Return the addresses of the training nodes' Dask workers, keyed by task. Raises Conflict if a node's host has
        left.
        """
        hosts = self._hosts()
        if lost := [task for task in self._tasks(serving=False) if task not in hosts]:
            raise Conflict(f"{', '.join(lost)} cannot be fed, because their hosts have left the cluster")
        return hosts

    def _has_ended(self) -> bool:
        return self.run.info.state.is_final

    def _on_end(self, callback: Callable[[], None]) -> Callable[[], None]:
        hub = session().hub

        def changed(run_id: str) -> None:
            # This runs in the session's own thread, which must not wait for itself, as `run.info` would.
            if run_id == self.run.id and hub.info(run_id).state.is_final:
                callback()

        return hub.subscribe(changed)

    def wait_listening(self, timeout_s: float) -> None:
        """Wait until all nodes have started and are listening. Raises RunFailed or TimeoutError."""
        ends = time.monotonic() + timeout_s
        self._wait(lambda info: info.state.is_final or _begun(info), ends, timeout_s, "reservation_timeout: ")
        if self.input_mode == InputMode.SPARK and not self.run.info.state.is_final:
            futures = [
                self.client.submit(node_feeding.listening, self._place, [task], timeout_s, workers=[host], pure=False)
                for task, host in self._hosts().items()
            ]
            self._wait_told(futures, ends, timeout_s, "reservation_timeout: ")
            if not self._has_ended():
                self.client.gather(futures)
        self._raise_if_failed()

    def _tell_end(self, hosts: dict[str, str], names: Sequence[str], ends: float | None, timeout_s: float) -> None:
        if self.run.info.state.is_final or not hosts:
            return
        left_s = math.inf if ends is None else max(ends - time.monotonic(), 0.0)
        futures = [
            self.client.submit(node_feeding.end, self._place, task, names, left_s, workers=[host], pure=False)
            for task, host in hosts.items()
        ]
        self._wait_told(futures, ends, timeout_s)

    def _wait_told(self, futures: list[Any], ends: float | None, timeout_s: float, what: str = "timeout: ") -> None:
        """Wait until Dask workers have executed requests for their nodes, or the run has ended.

        If a worker is lost, its requests and nodes are lost as well. Raises TimeoutError.
        """
        events: queues.SimpleQueue[Any] = queues.SimpleQueue()
        leave = self._on_end(lambda: events.put(None))
        try:
            for future in futures:
                future.add_done_callback(events.put)
            while not all(future.done() for future in futures) and not self._has_ended():
                events.get(timeout=None if ends is None else max(ends - time.monotonic(), 0.0))
        except queues.Empty:
            raise self._stopped(what, timeout_s) from None
        finally:
            leave()
            self.client.cancel([future for future in futures if not future.done()])

    def _wait(
        self, until: Callable[[RunInfo], bool], ends: float | None, timeout_s: float, what: str = "timeout: "
    ) -> None:
        try:
            self.run.wait_for(until, None if ends is None else max(ends - time.monotonic(), 0.0))
        except TimeoutError:
            raise self._stopped(what, timeout_s) from None

    def _stopped(self, what: str, timeout_s: float) -> TimeoutError:
        """Stop the run, and return the error to raise."""
        self.run.stop(now=True)
        self.run.wait()
        return TimeoutError(
            f"{what}the nodes of {self.run.info.name} did not reach this point within {timeout_s:g} s, and were stopped"
        )

    def _raise_if_failed(self) -> None:
        if self.run.info.state.is_final:
            self._close()
            self.run.raise_for_state()

    def _fail(self, error: BaseException) -> None:
        """Handle an error in feeding: the run's own error takes precedence, and the run is stopped if needed."""
        if isinstance(error, (RunFailed, Conflict)) and "feed_timeout" not in str(error):
            try:
                self.run.wait(_END_S)
            except TimeoutError:
                logger.warning("Feeding %s failed, but its run has not ended. The run is stopped", self.run.info.name)
        if not self.run.info.state.is_final:
            self.run.stop(now=True)
            self.run.wait()
            self._close()
            return
        self._close()
        if isinstance(error, Exception):
            self.run.raise_for_state()

    def _close(self) -> None:
        if self._board is not None:
            self._board.close()


def run(
    sc: Any,
    map_fun: Callable[[Any, Any], Any],
    tf_args: Any,
    num_executors: int,
    num_ps: int,
    tensorboard: bool = False,
    input_mode: int = InputMode.TENSORFLOW,
    log_dir: str | None = None,
    driver_ps_nodes: bool = False,
    master_node: str | None = None,
    reservation_timeout: float = 600,
    queues: Sequence[str] = words.QUEUES,
    eval_node: bool = False,
    release_port: bool = True,
) -> TFCluster:
    """Start ``map_fun(tf_args, ctx)`` on several nodes, each a task of one run, and wait until all have started.

    Args:
        sc: A ``dtf.Cluster``, a Dask client of one, or a ``SparkContext``.
        map_fun: The program, whose second argument is a ``TFNodeContext``.
        tf_args: The program's first argument. A list also becomes ``sys.argv``.
        num_executors: The number of nodes, including parameter servers, the master and the evaluator.
        num_ps: The number of parameter servers.
        tensorboard: Whether to show ``log_dir`` in TensorBoard, on the machine of this process.
        input_mode: One of ``InputMode``.
        log_dir: The directory for TensorBoard.
        driver_ps_nodes: Accepted with a warning: parameter servers run on the cluster's hosts.
        master_node: The name of the master's job, ``"chief"`` or ``"master"``; None: no master.
        reservation_timeout: Seconds within which all nodes must start.
        queues: The names of the nodes' queues.
        eval_node: Whether one node is an evaluator.
        release_port: Accepted but ignored, because a port stays reserved until TensorFlow listens there.

    Returns:
        The running cluster.

    Raises:
        InvalidInput: For invalid arguments.
        Unavailable: If the cluster cannot run that many nodes.
        RunFailed: If a node fails, with its traceback.
        TimeoutError: If the nodes have not started within ``reservation_timeout`` seconds.

    Example:
        >>> cluster = TFCluster.run(sc, map_fun, args, num_executors=3, num_ps=1, input_mode=TFCluster.InputMode.SPARK)
        >>> cluster.train(rdd, num_epochs=2)
        >>> cluster.shutdown()
    """
    if not callable(map_fun):
        raise InvalidInput(f"`map_fun` must be a function map_fun(args, ctx), got {map_fun!r:.200}", field="map_fun")
    if input_mode not in (InputMode.TENSORFLOW, InputMode.SPARK):
        raise InvalidInput(f"`input_mode` must be one of InputMode, got {input_mode!r:.100}", field="input_mode")
    for option, given in (("driver_ps_nodes", driver_ps_nodes), ("eval_node", eval_node)):
        if given and input_mode != InputMode.TENSORFLOW:
            raise InvalidInput(
                f"`{option}` must be False unless input_mode=InputMode.TENSORFLOW, got {given!r:.100}", field=option
            )
    if driver_ps_nodes:
        warnings.warn("driver_ps_nodes: parameter servers run on the cluster's hosts", stacklevel=2)
    plan = NodePlan(
        executors=nodes.executors(num_executors, num_ps, master_node, eval_node),
        master_node=master_node or "",
        default_fs=getattr(sc, "defaultFS", "file://"),
        working_dir=os.getcwd(),
        queues=tuple(queues),
    )
    cluster = nodes.cluster_of(sc)
    board = TensorBoard(log_dir) if tensorboard else None
    started = None
    try:
        started = cluster.run(
            functools.partial(node_program, map_fun),
            (tf_args, plan),
            name=getattr(map_fun, "__name__", "program").strip("_") or "program",
            jobs=nodes.jobs_of(plan.executors),
            wait=False,
        )
        found = TFCluster(sc, started, plan, input_mode, board)
        show_until_sent(started)
        found.wait_listening(reservation_timeout)
    except BaseException:
        if started is not None and not started.info.state.is_final:
            started.stop(now=True)
        if board is not None:
            board.close()
        raise
    return found


def _begun(info: RunInfo) -> bool:
    waiting = (TaskState.PENDING, TaskState.STARTING)
    return bool(info.tasks) and all(task.state not in waiting for task in info.tasks)


def _trained(info: RunInfo) -> bool:
    """Return whether the programs of all nodes that train have ended."""
    return all(task.state in _OVER for task in info.tasks if task.task.partition(":")[0] not in SERVING)
