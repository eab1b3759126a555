"""TensorFlowOnSpark's ``TFNode``: functions for a node's context, and ``DataFeed``, the input of its program."""

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
"""The schemes of paths that are already complete."""
_HOMES = ("hdfs", "viewfs")
"""The file systems on which relative paths start in the user's home directory."""


class Node(Protocol):
    """The part of a context (``TFNodeContext``) that these functions need."""

    defaultFS: str
    working_dir: str
    job_name: str
    dtf: Any


def hdfs_path(ctx: Node, path: str) -> str:
    """Return the absolute path, with the scheme of its file system or, if it has none, of ``ctx.defaultFS``.

    A relative path starts in the user's home directory on ``hdfs`` and ``viewfs``, in ``ctx.working_dir`` on ``file``,
    and at the root on other file systems, with a warning.
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
    logger.warning("`path` should be absolute on %s, got %r, which is interpreted relative to the root", system, path)
    return f"{system}/{path}"


def start_cluster_server(ctx: Node, num_gpus: int = 1, rdma: bool = False) -> tuple[Any, Any]:
    """Return this node's ``(tf.train.ClusterSpec, tf.distribute.Server)``.

    ``num_gpus`` is ignored, because the run assigns the GPUs. ``server.join()`` returns once no node of the run is
    still working. Raises Unavailable for ``rdma=True``.
    """
    if rdma:
        raise Unavailable("`rdma` must be False, because TensorFlow's servers use only gRPC, got True")
    server = ctx.dtf.server
    return ctx.dtf.cluster_spec.as_tf(), server


def export_saved_model(
    model: Any, export_dir: str, tag_set: str = "serve", signatures: Mapping[str, Any] | None = None
) -> None:
    """Write a Keras model, with its ``export``, or a ``tf.compat.v1.Session`` as a SavedModel to ``export_dir``.

    ``tag_set`` (separated by commas) and ``signatures`` (``{key: {"inputs": {alias: tensor}, "outputs": {alias:
    tensor}, "method_name": name}}``) are only for a session. Raises InvalidInput for anything else.
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
    """Do nothing: a bound socket reserves a node's port until TensorFlow listens there."""
    logger.debug("%s: TensorFlow takes over its port when it starts to listen", ctx.job_name)


class DataFeed:
    """The input of a node with ``InputMode.SPARK``: partitions of the collection, item by item.

    ``input_mapping`` maps columns to tensor names. If it is given, items are rows with the columns in alphabetical
    order, and a batch is a dict keyed by tensor name. With ``train_mode=False``, a batch ends at the end of a
    partition, and every item must get a result (``batch_results``).
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
        """Return the next items: a list, or, with ``input_mapping``, a dict of lists keyed by tensor name.

        There are fewer than ``batch_size`` items at the end of the feed and, with ``train_mode=False``, at the end of a
        partition.
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
        """Return whether the feed has ended."""
        return self.done_feeding

    def batch_results(self, results: Sequence[Any]) -> None:
        """Send results to the client: one for each item that was read, in order.

        Raises AssertionError if there are more results than items.
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
        """Request no more data: queued items are dropped, and further partitions are not sent."""
        self.mgr.terminate(self.qname_in)
