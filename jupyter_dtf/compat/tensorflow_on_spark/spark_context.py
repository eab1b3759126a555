"""``SparkContext`` on a cluster of this project, with the methods that TensorFlowOnSpark programs use."""

from __future__ import annotations

import atexit
import itertools
import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ...client.cluster import Cluster
from ...errors import Conflict, InvalidInput
from ...schema.arguments import check_integer
from . import nodes, part_files
from .rdd import RDD

if TYPE_CHECKING:
    from distributed import Client

_EXECUTORS = "spark.executor.instances"
_active: SparkContext | None = None
_lock = threading.Lock()


class SparkConf:
    """A configuration: ``set``, ``get``, ``setAppName``, ``setMaster``. Only the number of executors has an effect."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    def set(self, key: str, value: Any) -> SparkConf:
        """Set the value of a key, and return this configuration."""
        self._values[key] = str(value)
        return self

    def get(self, key: str, defaultValue: str | None = None) -> str | None:
        """Return the value of a key, or ``defaultValue`` if none is set."""
        return self._values.get(key, defaultValue)

    def setAppName(self, value: str) -> SparkConf:
        """Set ``spark.app.name``."""
        return self.set("spark.app.name", value)

    def setMaster(self, value: str) -> SparkConf:
        """Set ``spark.master``, which has no effect here."""
        return self.set("spark.master", value)


class SparkContext:
    """Creates collections on a cluster with Spark's methods: ``parallelize``, ``textFile``, ``union``.

    ``cluster`` is a ``dtf.Cluster`` or its name. If it is omitted, a cluster is started with the number of workers in
    ``conf`` (``spark.executor.instances``, otherwise 2) and with ``options`` as for ``dtf.Cluster``. That cluster ends
    with ``stop()`` or the ``with`` block. ``defaultFS`` is the file system of paths without a scheme. Raises Conflict
    if a context already exists.
    """

    def __init__(
        self,
        cluster: Cluster | str | None = None,
        *,
        conf: SparkConf | None = None,
        defaultFS: str = "file://",
        **options: Any,
    ) -> None:
        global _active
        with _lock:
            if _active is not None:
                raise Conflict(
                    "A SparkContext already exists: SparkContext.getOrCreate() returns it, and stop() ends it"
                )
            self.defaultFS = defaultFS
            self._conf = conf or SparkConf()
            self._owns_cluster = cluster is None
            if cluster is None:
                executors = int(self._conf.get(_EXECUTORS) or 2)
                cluster = Cluster(jobs={"worker": executors}, **options)
            elif options:
                raise InvalidInput(f"`options` must be omitted for an existing cluster, got {sorted(options)}")
            self.cluster: Cluster = Cluster.connect(cluster) if isinstance(cluster, str) else cluster
            self._conf.set(_EXECUTORS, sum(self.cluster.jobs.values()))
            try:
                self.client: Client = nodes.new_client(self.cluster)
                """The Dask client of the cluster, which is Dask's default until ``stop()``."""
            except BaseException:
                if self._owns_cluster:
                    self.cluster.close()
                raise
            atexit.register(
                self.client.close
            )  # before the cluster is closed, otherwise the client would search for its scheduler
            _active = self

    @classmethod
    def getOrCreate(cls, conf: SparkConf | None = None) -> SparkContext:
        """Return the existing context, or a new one."""
        return _active if _active is not None else cls(conf=conf)

    def getConf(self) -> SparkConf:
        """Return the configuration, with ``spark.executor.instances``."""
        return self._conf

    @property
    def defaultParallelism(self) -> int:
        """The default number of partitions: the number of the cluster's tasks, at least 2."""
        return max(2, sum(self.cluster.jobs.values()))

    def parallelize(self, c: Iterable[Any], numSlices: int | None = None) -> RDD:
        """Divide items into ``numSlices`` partitions with sizes that differ by at most one."""
        from dask import delayed

        items = list(c)
        count = check_integer(self.defaultParallelism if numSlices is None else numSlices, "numSlices", 1)
        bounds = [len(items) * number // count for number in range(count + 1)]
        # With traverse=True, Dask would search every value of every item for its own objects, which takes minutes.
        return self._rdd([delayed(items[begin:end], traverse=False) for begin, end in itertools.pairwise(bounds)])

    def textFile(self, name: str, minPartitions: int | None = None) -> RDD:
        """Read the lines of a file, a directory of part files, or files matching a pattern. Each file is a partition.

        The lines are divided further if there are fewer than ``minPartitions`` files. Raises NotFound if there are no
        files, and Unavailable if they cannot be accessed.
        """
        from dask import delayed

        read = delayed(_lines)
        found = self._rdd([read(part) for part in part_files.parts(name)])
        wanted = minPartitions or 1
        return found if found.getNumPartitions() >= wanted else found.repartition(wanted)

    def union(self, rdds: Sequence[RDD]) -> RDD:
        """Concatenate the partitions of several collections."""
        import dask.bag as db

        if not rdds:
            raise InvalidInput("`rdds` must contain at least one RDD")
        return RDD(db.concat([rdd.bag for rdd in rdds]), self)

    def createDataFrame(self, data: Any, columns: Sequence[str]) -> Any:
        """Convert an RDD, a bag or a list of rows to a Dask dataframe. In Spark, this is a method of the session."""
        from .row_frames import of_bag

        rdd = data if isinstance(data, RDD) else RDD(data, self) if hasattr(data, "to_delayed") else None
        return of_bag((rdd or self.parallelize(data)).bag, list(columns), self.compute)

    def compute(self, what: Any) -> Any:
        """Compute a Dask collection, or a list of them, on the cluster."""
        if isinstance(what, list):
            return self.client.gather(self.client.compute(what))
        return self.client.compute(what).result()

    def stop(self) -> None:
        """End the context, and the cluster if the context has started it."""
        global _active
        with _lock:
            if _active is self:
                _active = None
        atexit.unregister(self.client.close)
        self.client.close()
        if self._owns_cluster:
            self.cluster.close()

    def _rdd(self, parts: list[Any]) -> RDD:
        import dask.bag as db

        return RDD(db.from_delayed(parts), self)

    def __enter__(self) -> SparkContext:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<SparkContext of {self.cluster!r}>"


def _lines(part: str) -> list[str]:
    system, root = part_files.opened(part)
    with system.open(root, "rt", encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file]
