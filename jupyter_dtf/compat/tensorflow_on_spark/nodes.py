"""Which cluster a program means, which jobs its nodes are, and how Dask reaches it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...backend.viewer.connections import Connection
from ...backend.viewer.link import security_of
from ...client.cluster import Cluster
from ...client.known import clusters
from ...client.session import session
from ...errors import InvalidInput
from .node_program import MASTERS

if TYPE_CHECKING:
    from distributed import Client


def cluster_of(sc: Any) -> Cluster:
    """The cluster that is meant by a ``dtf.Cluster``, a Dask client of one, or a ``SparkContext``.

    Raises InvalidInput for anything else.
    """
    found = getattr(sc, "cluster", sc)
    if isinstance(found, Cluster):
        return found
    scheduler = getattr(sc, "scheduler", None)
    address = getattr(scheduler, "address", None)
    if address is not None:
        for cluster in clusters():
            cluster.wait_ready()
            if _connection(cluster).address == address:
                return cluster
        raise InvalidInput(
            "A Dask client must be one of a cluster of jupyter_dtf: of a dtf.Cluster, or of a scheduler that was "
            f'joined by dtf.Cluster(backend="address", ...). Received: a client of {address}',
            field="sc",
        )
    raise InvalidInput(
        "`sc` must be a dtf.Cluster, a Dask client of one or a SparkContext of jupyter_dtf.compat, got "
        f"{type(sc).__module__}.{type(sc).__qualname__}",
        field="sc",
    )


def client_of(sc: Any, cluster: Cluster) -> tuple[Client, bool]:
    """A Dask client of the cluster: that of ``sc``, or a new one, which is then also what Dask computes with where
    nothing else is said. And whether it is a new one.
    """
    from distributed import Client

    for given in (sc, getattr(sc, "client", None)):
        if isinstance(given, Client):
            return given, False
    return new_client(cluster), True


def new_client(cluster: Cluster) -> Client:
    """A Dask client of a cluster, which Dask computes with from now on where nothing else is said."""
    from distributed import Client

    cluster.wait_ready()
    connection = _connection(cluster)
    return Client(connection.address, security=security_of(connection), name="tensorflow-on-spark")


def token_of(cluster: Cluster) -> str:
    """What the cluster's directories on its machines are called."""
    return _connection(cluster).token


def _connection(cluster: Cluster) -> Connection:
    return session().do(lambda fleet: fleet.connection(cluster.name))


def executors(num_executors: int, num_ps: int, master_node: str | None, eval_node: bool) -> dict[str, list[int]]:
    """The ids of the nodes of each job, as TensorFlowOnSpark gives them out: ``ps``, master, evaluator, workers.

    Raises InvalidInput for numbers that leave nobody to train, and for another ``master_node`` than chief and master.
    """
    for name, value, least in (("num_executors", num_executors, 1), ("num_ps", num_ps, 0)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InvalidInput(f"`{name}` must be a whole number from {least}, got {value!r:.100}", field=name)
    if master_node and master_node not in MASTERS:
        raise InvalidInput(
            f"`master_node` must be {' or '.join(MASTERS)}, got {master_node!r:.100}", field="master_node"
        )
    counts = {"ps": num_ps, master_node or "chief": int(bool(master_node)), "evaluator": int(bool(eval_node))}
    workers = num_executors - sum(counts.values())
    if workers < 0 or (workers == 0 and not master_node):
        others = ", ".join(f"{count} {job}" for job, count in counts.items() if count)
        raise InvalidInput(
            f"`num_executors` counts all nodes, and a cluster needs a worker or a master beside its other nodes. "
            f"Received: num_executors={num_executors} with {others or 'no others'}",
            field="num_executors",
        )
    counts["worker"] = workers
    plan: dict[str, list[int]] = {}
    begin = 0
    for job, count in counts.items():
        if count:
            plan[job] = list(range(begin, begin + count))
        begin += count
    return plan


def jobs_of(plan: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """The jobs of the run: a master is what this project calls the chief, and jobs that train come first."""
    counts = {"chief" if job in MASTERS else job: len(ids) for job, ids in plan.items()}
    return {job: counts[job] for job in ("chief", "worker", "ps", "evaluator") if job in counts}
