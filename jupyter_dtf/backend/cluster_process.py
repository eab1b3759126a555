"""The cluster process: holds Dask's ``Cluster`` object and the archive, until the cluster is closed.

``python -m jupyter_dtf.backend.cluster_process NAME READY_FD`` with a ClusterRequest as JSON on standard input. One
byte is written to READY_FD when the connection file says ``running`` or ``failed``. Nothing keeps this process alive
but the cluster's own life: it survives whoever started it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import shutil
import signal
import sys
import time
from typing import Any

from ..schema.api import ClusterRequest, ClusterState
from ..schema.base import convert, decode_json
from ..schema.run import RunInfo
from . import connections, factories, places
from .plan import Drawing
from .warm_client import start_warm

logger = logging.getLogger(__name__)


QUIET_DASK = {
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "2s",
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.worker.profile.enabled": False,
    "distributed.worker.memory.monitor-interval": "1s",
}
"""Dask watches itself up to a hundred times a second: with its defaults an idle scheduler and worker take an eighth of
a core from the tasks. What a person has set in Dask's configuration for these is overridden; the rest holds.
"""


class ClusterProcess:
    """Starts, scales and ends one cluster."""

    def __init__(self, request: ClusterRequest, ready_fd: int) -> None:
        self.request = request
        self._ready_fd = ready_fd
        self._token = secrets.token_hex(6)
        self._directory = places.machine_dir(self._token)
        self._stop = asyncio.Event()
        self._runs_ended = asyncio.Event()
        self._kind = factories.find_kind(request.kind)
        self._options = factories.options_of(self._kind, request)
        self._connection = connections.read(request.name)

    async def run(self) -> None:
        """The whole life of the cluster."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self._stop.set)
        # First of all, because it takes longest and shares nothing with Dask's start. For other machines than this one
        # the hosts start theirs.
        shared = places.shared_memory_dir(self._token)
        warm = start_warm(self._directory, shared) if self.request.kind == "local" else None
        try:
            await self._serve()
        finally:
            if warm is not None:
                warm.kill()  # every host is gone; it would end by itself, but only when TensorFlow is imported
                await asyncio.to_thread(warm.wait)
            for directory in (self._directory, shared):
                shutil.rmtree(directory, ignore_errors=True)

    async def _serve(self) -> None:
        import dask.config
        from distributed import Security

        from .link import Link
        from .metrics.archive import Archive
        from .metrics.store import Store
        from .viewers import ARCHIVE

        dask.config.set(QUIET_DASK)
        security = Security.temporary()
        cluster = await self._kind.create(self._options, security, self._directory)
        try:
            await self._install_controller(cluster)
            self._publish(cluster.scheduler_address, security)
            archive = Archive(Store(places.store_path()))
            lost = asyncio.Event()
            link = await Link.open(
                self._connection, lambda message: self._on_message(message, cluster, archive), lost.set, role=ARCHIVE
            )
            cluster.scale(self._kind.hosts(self._options, self.request.jobs))
            await _first_of(self._stop, lost)
            self._connection.state = ClusterState.STOPPING
            connections.write(self._connection)
            if not lost.is_set():
                await link.request("end_runs")
                await _first_of(self._runs_ended, lost)
            await link.close()
            await archive.close()
        finally:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(cluster.close(), 20)

    async def _install_controller(self, cluster: Any) -> None:
        from .controller import Controller, ControllerSettings

        settings = ControllerSettings(
            name=self.request.name,
            kind=self.request.kind,
            token=self._token,
            jobs=self.request.jobs,
            runs_dir=str(places.runs_dir()),
            keep=self.request.keep,
            grace_s=self.request.grace_s,
            created=self._connection.created,
            drawing=Drawing(self.request.hosts, self.request.tasks),
        )
        await _register(cluster, Controller(settings))

    def _publish(self, address: str, security: Any) -> None:
        """From now on the cluster can be reached."""
        self._connection.address = address
        self._connection.ca = security.tls_ca_file
        self._connection.cert = security.tls_client_cert
        self._connection.key = security.tls_client_key
        self._connection.state = ClusterState.RUNNING
        connections.write(self._connection)
        self._tell_ready()

    def fail(self, error: BaseException) -> None:
        """Leave word of why there is no cluster."""
        self._connection.state = ClusterState.FAILED
        self._connection.message = f"{type(error).__name__}: {error}"
        connections.write(self._connection)
        self._tell_ready()

    def _tell_ready(self) -> None:
        if self._ready_fd >= 0:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._ready_fd, b"r")
            os.close(self._ready_fd)
            self._ready_fd = -1

    def _on_message(self, message: dict[str, Any], cluster: Any, archive: Any) -> None:
        match message["op"]:
            case "run":
                archive.put_run(convert(message["info"], RunInfo))
            case "event":
                archive.append(message["run"], message["seq"], message["data"])
            case "cluster":
                hosts = self._kind.hosts(self._options, message["info"]["jobs"])
                if hosts != len(cluster.worker_spec):
                    cluster.scale(hosts)
            case "close":
                self._stop.set()
            case "ended":
                self._runs_ended.set()


async def _first_of(*events: asyncio.Event) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()


async def _register(cluster: Any, plugin: Any) -> None:
    """Install a SchedulerPlugin wherever the scheduler runs."""
    import cloudpickle

    await cluster.scheduler_comm.register_scheduler_plugin(
        plugin=cloudpickle.dumps(plugin), name=plugin.name, idempotent=False
    )


def main(argv: list[str]) -> int:
    """Run the cluster named by ``argv[0]`` until it is closed."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    name, ready_fd = argv[0], int(argv[1])
    request = decode_json(sys.stdin.buffer.read(), ClusterRequest)
    request.name = name
    started = time.time()
    process = ClusterProcess(request, ready_fd)
    try:
        asyncio.run(process.run())
    except Exception as error:
        logger.exception("The cluster %s failed after %.1f s", name, time.time() - started)
        process.fail(error)
        return 1
    connections.forget(name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
