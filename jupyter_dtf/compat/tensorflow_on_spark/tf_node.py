"""TensorFlowOnSpark's ``TFNode``: what a program on a node does with its context, and ``DataFeed``, what it reads."""

from __future__ import annotations

import getpass
import logging
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ...errors import InvalidInput, Unavailable
from . import feed_words as words
from .tf_manager import EndPartition, TFManager

logger = logging.getLogger(__name__)

HADOOP_SCHEMES = ("adl", "file", "hdfs", "oss", "s3", "s3a", "s3n", "swift", "viewfs", "wasb")
"""With these a path says itself where it is."""
_HOMES = ("hdfs", "viewfs")
"""Where a path that begins nowhere begins in the user's home directory."""


class Node(Protocol):
    """A context (``TFNodeContext``), as far as these functions need one."""

    defaultFS: str
    working_dir: str
    job_name: str
    dtf: Any


def hdfs_path(ctx: Node, path: str) -> str:
    """The absolute path, with the scheme of its file system: ``ctx.defaultFS`` where the path has none.

    One that begins nowhere begins in the user's home on ``hdfs`` and ``viewfs``, in ``ctx.working_dir`` on ``file``,
    and elsewhere, with a warning, at the root.
    """
    system = ctx.defaultFS
    scheme, separator, _ = path.partition("://")
    if separator and scheme in HADOOP_SCHEMES:
        return path
    if path.startswith("/"):
        return system + path
    here = system.partition("://")[0]
    if here in _HOMES:
        return f"{system}/user/{getpass.getuser()}/{path}"
    if here == "file":
        return system + posixpath.join(ctx.working_dir, path)
    logger.warning("A path that begins nowhere is taken from the root of %s. Received: %r", system, path)
    return f"{system}/{path}"


def start_cluster_server(ctx: Node, num_gpus: int = 1, rdma: bool = False) -> tuple[Any, Any]:
    """``(tf.train.ClusterSpec, tf.distribute.Server)`` of this node. Its GPUs are those that the run has given it.

    ``server.join()`` returns when no node of the run works any more. Raises Unavailable for ``rdma=True``.
    """
    if rdma:
        raise Unavailable("TensorFlow has no RDMA any more: its servers speak gRPC. Received: rdma=True")
    server = ctx.dtf.server
    return ctx.dtf.cluster_spec.as_tf(), server


def export_saved_model(
    model: Any, export_dir: str, tag_set: str = "serve", signatures: Mapping[str, Any] | None = None
) -> None:
    """Write a SavedModel to ``export_dir``: of a Keras model as its ``export`` does, or of a ``tf.compat.v1.Session``.

    ``tag_set``: tags, parted by commas; ``signatures``: ``{key: {"inputs": {alias: tensor}, "outputs": {alias: tensor},
    "method_name": name}}``, both for a session alone. Raises InvalidInput for anything else.
    """
    import tensorflow as tf

    if isinstance(model, tf.keras.Model):
        model.export(export_dir)
        return
    if not isinstance(model, tf.compat.v1.Session):
        raise InvalidInput(f"`model` must be a Keras model or a session, got {type(model).__name__}", field="model")
    saved = tf.compat.v1.saved_model
    definitions = {
        key: saved.build_signature_def(
            inputs={alias: saved.build_tensor_info(tensor) for alias, tensor in signature["inputs"].items()},
            outputs={alias: saved.build_tensor_info(tensor) for alias, tensor in signature["outputs"].items()},
            method_name=signature.get("method_name", key),
        )
        for key, signature in (signatures or {}).items()
    }
    with model.graph.as_default():
        builder = saved.Builder(export_dir)
        builder.add_meta_graph_and_variables(model, tag_set.split(","), definitions, clear_devices=True)
        builder.save()


def release_port(ctx: Node) -> None:
    """Nothing to do: the port of a node stays reserved by a bound socket until TensorFlow itself listens there."""
    logger.debug("%s: TensorFlow takes its port over when it listens", ctx.job_name)


class DataFeed:
    """What a node is fed, with ``InputMode.SPARK``: partitions of the collection, item by item.

    ``input_mapping`` maps columns to names of tensors: a batch is then a dict of these, from items that are rows with
    the columns in alphabetical order. With ``train_mode=False`` a batch ends with its partition, and every item is to
    get a result (``batch_results``).
    """

    def __init__(
        self,
        mgr: TFManager,
        train_mode: bool = True,
        qname_in: str = words.INPUT,
        qname_out: str = words.OUTPUT,
        input_mapping: Mapping[str, str] | None = None,
    ) -> None:
        self.mgr = mgr
        self.train_mode = train_mode
        self.qname_in = qname_in
        self.qname_out = qname_out
        self.done_feeding = False
        self.input_tensors = None if input_mapping is None else [name for _, name in sorted(input_mapping.items())]
        self.queue_in = mgr.get_queue(qname_in)
        self.queue_out = mgr.get_queue(qname_out)

    def next_batch(self, batch_size: int) -> Any:
        """The next items: a list, or a dict of lists by the names of tensors where there is an ``input_mapping``.

        They are fewer than ``batch_size`` at the end of the feed, and, with ``train_mode=False``, of a partition.
        """
        items: list[Any] = []
        while len(items) < batch_size:
            fed = self.queue_in.take()
            if fed.item is None:
                self.done_feeding = True
            elif not isinstance(fed.item, EndPartition):
                items.append(fed.item)
                self.mgr.items_read += 1
            self.queue_in.task_done()
            ends = fed.partition >= 0 or isinstance(fed.item, EndPartition)
            if self.done_feeding or (ends and items and not self.train_mode):
                break
        if self.input_tensors is None:
            return items
        return {name: [item[column] for item in items] for column, name in enumerate(self.input_tensors)}

    def should_stop(self) -> bool:
        """Whether the feed has ended."""
        return self.done_feeding

    def batch_results(self, results: Sequence[Any]) -> None:
        """Give the results of the items that were read, in their order: one for each.

        Raises AssertionError for more results than items.
        """
        unanswered = self.mgr.items_read - self.mgr.results_given
        if len(results) > unanswered:
            raise AssertionError(
                f"batch_results() must be given one result for each item that was read, got {len(results)} for "
                f"{unanswered}"
            )
        self.mgr.results_given += len(results)
        for result in results:
            self.queue_out.put(result)

    def terminate(self) -> None:
        """Want no more data: what waits is dropped, and partitions that are still to come are not sent."""
        self.mgr.terminate(self.qname_in)
