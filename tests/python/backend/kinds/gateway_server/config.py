"""The configuration of a dask-gateway-server for tests. Its clusters are processes of this machine and this user."""

import os
import sys
from typing import Any

from dask_gateway_server.options import Integer, Mapping, Options, Select

c: Any = get_config()  # type: ignore[name-defined]  # noqa: F821 - provided by traitlets, which runs this file


def configure(options: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"worker_cores": options.worker_cores, "cluster_max_workers": options.most_workers or None}
    environment = dict(os.environ)
    if options.profile == "bare":  # like an image without this package
        environment["PYTHONPATH"] = os.environ["GATEWAY_BARE"]
    if options.profile == "broken":
        made["scheduler_cmd"] = [sys.executable, "-c", "raise SystemExit('no such thing')"]
    return made | {"environment": {**environment, **options.more}}


c.DaskGateway.backend_class = "dask_gateway_server.backends.local.UnsafeLocalBackend"
c.DaskGateway.authenticator_class = "dask_gateway_server.auth.SimpleAuthenticator"
c.SimpleAuthenticator.password = "secret"
c.DaskGateway.address = os.environ["GATEWAY_API"]
c.Proxy.address = os.environ["GATEWAY_PUBLIC"]
c.UnsafeLocalBackend.cluster_options = Options(
    Integer("worker_cores", default=1, min=1, max=4, label="Cores of a worker"),
    Integer("most_workers", default=0, min=0, label="Workers at most"),
    Select("profile", ["plain", "bare", "broken"], default="plain", label="Profile"),
    Mapping("more", default={}, label="Environment"),
    handler=configure,
)
c.UnsafeLocalBackend.inherited_environment = []
c.UnsafeLocalBackend.clusters_directory = os.environ["GATEWAY_CLUSTERS"]
c.UnsafeLocalBackend.sigint_timeout = 2
c.UnsafeLocalBackend.cluster_status_period = 0.5
c.UnsafeLocalBackend.worker_status_period = 0.5
c.UnsafeLocalBackend.cluster_heartbeat_period = 1
c.UnsafeLocalBackend.cluster_heartbeat_timeout = 10
c.UnsafeLocalBackend.check_timeouts_period = 1
c.LocalClusterConfig.idle_timeout = float(os.environ.get("GATEWAY_IDLE_S", "0"))
c.LocalClusterConfig.scheduler_cmd = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
c.LocalClusterConfig.worker_cmd = [sys.executable, "-m", "distributed.cli.dask_worker", "--nthreads", "1"]
