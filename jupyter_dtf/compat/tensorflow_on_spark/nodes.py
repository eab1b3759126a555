"""The cluster of a program, the jobs of its nodes, and Dask clients for the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...backend.viewer.connections import Connection
from ...backend.viewer.link import security_of
from ...client.cluster import Cluster
from ...client.lookup import clusters
from ...client.session import session
from ...errors import InvalidInput
from ...schema.arguments import check_integer
from .node_program import MASTERS

if TYPE_CHECKING:
    from distributed import Client


def cluster_of(sc: Any) -> Cluster:
    """Return the cluster for a ``dtf.Cluster``, a Dask client of one, or a ``SparkContext``.

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
            "`sc` must be a Dask client of a cluster of jupyter_dtf: of a dtf.Cluster, or of a scheduler joined with "
            f'dtf.Cluster(backend="address", ...), got a client of {address}',
            field="sc",
        )
    raise InvalidInput(
        "`sc` must be a dtf.Cluster, a Dask client of one or a SparkContext of jupyter_dtf.compat, got "
        f"{type(sc).__module__}.{type(sc).__qualname__}",
        field="sc",
    )


def client_of(sc: Any, cluster: Cluster) -> Client:
    """Return a Dask client: ``sc`` itself, the client of a context, or the cluster's own client."""
    from distributed import Client

    if isinstance(sc, Client):
        return sc
    found: Client = getattr(sc, "client", None) or cluster.client
    return found


def new_client(cluster: Cluster) -> Client:
    """Create a Dask client for a cluster. It becomes Dask's default client."""
    from distributed import Client

    cluster.wait_ready()
    connection = _connection(cluster)
    return Client(connection.address, security=security_of(connection), name="tensorflow-on-spark")


def token_of(cluster: Cluster) -> str:
    """Return the token after which the cluster's directories on its machines are named."""
    return _connection(cluster).token


def _connection(cluster: Cluster) -> Connection:
    return session().do(lambda fleet: fleet.connection(cluster.name))


def executors(num_executors: int, num_ps: int, master_node: str | None, eval_node: bool) -> dict[str, list[int]]:
    """Return the ids of the nodes of each job, in the order of TensorFlowOnSpark: ``ps``, master, evaluator, workers.

    Raises InvalidInput if no node is left for training, or if ``master_node`` is neither chief nor master.
    """
    for name, value, least in (("num_executors", num_executors, 1), ("num_ps", num_ps, 0)):
        check_integer(value, name, least)
    if master_node and master_node not in MASTERS:
        raise InvalidInput(
            f"`master_node` must be {' or '.join(MASTERS)}, got {master_node!r:.100}", field="master_node"
        )
    counts = {"ps": num_ps, master_node or "chief": int(bool(master_node)), "evaluator": int(bool(eval_node))}
    workers = num_executors - sum(counts.values())
    if workers < 0 or (workers == 0 and not master_node):
        others = ", ".join(f"{count} {job}" for job, count in counts.items() if count)
        raise InvalidInput(
            "`num_executors` must count all nodes, including at least one worker or master, got "
            f"{num_executors} with {others or 'no others'}",
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
    """Return the jobs of the run, training jobs first. In this project, a master is called chief."""
    counts = {"chief" if job in MASTERS else job: len(ids) for job, ids in plan.items()}
    return {job: counts[job] for job in ("chief", "worker", "ps", "evaluator") if job in counts}
