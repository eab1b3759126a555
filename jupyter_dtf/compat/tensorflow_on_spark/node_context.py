"""The ``ctx`` of programs written for TensorFlowOnSpark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import feed_words as words
from . import tf_node
from .tf_manager import TFManager


class TFNodeContext:
    """The position of a node in its cluster, and the functions of ``TFNode`` for the node.

    ``executor_id``, also called ``worker_num``, is the number of the node among all nodes: ``ps`` first, then the
    master, the evaluator and the workers. ``num_workers`` includes the master. ``cluster_spec`` is a dict of lists of
    endpoints.
    """

    def __init__(
        self,
        executor_id: int = 0,
        job_name: str = "",
        task_index: int = 0,
        cluster_spec: Mapping[str, list[str]] | None = None,
        defaultFS: str = "file://",
        working_dir: str = ".",
        mgr: TFManager | None = None,
        dtf: Any = None,
    ) -> None:
        self.executor_id = executor_id
        self.worker_num = executor_id
        self.job_name = job_name
        self.task_index = task_index
        self.cluster_spec = dict(cluster_spec or {})
        self.num_workers = sum(len(self.cluster_spec.get(job, [])) for job in ("master", "chief", "worker"))
        self.defaultFS = defaultFS
        self.working_dir = working_dir
        self.mgr = mgr
        self.tmp_socket = None
        """Always None, as after ``release_port()``."""
        self.dtf = dtf
        """This project's own context, for example to report values for plots with ``report``."""

    def absolute_path(self, path: str) -> str:
        """Call ``TFNode.hdfs_path``."""
        return tf_node.hdfs_path(self, path)

    def start_cluster_server(self, num_gpus: int = 1, rdma: bool = False) -> tuple[Any, Any]:
        """Call ``TFNode.start_cluster_server``."""
        return tf_node.start_cluster_server(self, num_gpus, rdma)

    def export_saved_model(
        self, model: Any, export_dir: str, tag_set: str = "serve", signatures: Mapping[str, Any] | None = None
    ) -> None:
        """Call ``TFNode.export_saved_model``."""
        tf_node.export_saved_model(model, export_dir, tag_set, signatures)

    def get_data_feed(
        self,
        train_mode: bool = True,
        qname_in: str = words.INPUT,
        qname_out: str = words.OUTPUT,
        input_mapping: Mapping[str, str] | None = None,
    ) -> tf_node.DataFeed:
        """Create a ``TFNode.DataFeed``."""
        assert self.mgr is not None, "programs of TFParallel are not fed"
        return tf_node.DataFeed(self.mgr, train_mode, qname_in, qname_out, input_mapping)

    def release_port(self) -> None:
        """Call ``TFNode.release_port``."""
        tf_node.release_port(self)
