"""``cluster.servers``: bare TensorFlow servers on the cluster's tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..backend.task.context import serve
from ..schema.arguments import check_addresses
from ..schema.run_options import RunOptions
from .argument_errors import names_arguments
from .cluster_handle import ClusterHandle
from .run import Run
from .servers import Servers, address_towards
from .submitting import request_of, submit


class Serving(ClusterHandle):
    """The part of ``Cluster`` that starts bare TensorFlow servers."""

    @names_arguments
    def servers(
        self,
        jobs: Mapping[str, int] | None = None,
        *,
        threads_per_task: int = 0,
        clients: Sequence[str] | str = (),
        wait: bool = True,
    ) -> Servers:
        """Start bare TensorFlow servers on the tasks, for graphs that you place by hand.

        The servers are the tasks of an ordinary run, which ends with the ``with`` block, with ``servers.close()``, or
        when it is stopped. If all servers are on this machine, only your own processes can connect to them. Otherwise
        every user of this machine and of the servers' machines can connect.

        Args:
            jobs: See ``run``.
            threads_per_task: See ``run``.
            clients: Addresses or names of additional machines that may connect.
            wait: Wait until all servers accept connections.

        Returns:
            The servers.

        Raises:
            InvalidInput: If an argument is invalid.
            RunFailed: If a server could not start.
            RunStopped: If the run was stopped while starting.

        Example:
            >>> with cluster.servers() as servers:
            ...     with tf.compat.v1.Session(servers.target) as session:
            ...         session.run(fetches)
        """
        options = RunOptions.among({"name": "servers", "jobs": jobs, "threads_per_task": threads_per_task})
        others = check_addresses(clients, "clients")
        self.wait_ready()
        hosts = self.info.hosts or self._session.call(lambda fleet: fleet.placed(self._name)).hosts
        machines = {address_towards(host.address.partition("://")[2]) for host in hosts}
        request = request_of(options, kind="servers")
        servers = Servers(submit(self._name, request, (serve, (sorted({*machines, *others}),), {}), Run))
        return servers.wait_ready() if wait else servers
