"""The cluster process: holds Dask's ``Cluster`` object and the archive until the cluster is closed.

Started as ``python -m jupyter_dtf.backend.cluster.cluster_process NAME READY_FD`` with a ClusterRequest as JSON on
standard input. One byte is written to READY_FD once the state in the connection file is ``running`` or ``failed``. The
process lives as long as its cluster, independently of the process that started it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import signal
import sys
import time
from functools import partial
from typing import Any

from ...errors import ClusterLost, DtfError
from ...schema import protocol
from ...schema.api import ClusterState
from ...schema.base import convert, decode_json
from ...schema.cluster_request import ClusterRequest
from ...schema.run import RunDescriptor
from ..host.warm_client import start_warm
from ..kinds import registry
from ..kinds.idle_release import rest_of
from ..machine import cluster_processes, paths
from ..machine.visibility_mark import Mark
from ..viewer import connections

logger = logging.getLogger(__name__)


QUIET_DASK = {
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "2s",
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.worker.profile.enabled": False,
    "distributed.worker.memory.monitor-interval": "1s",
}
"""Dask monitors itself up to a hundred times a second: with its defaults, an idle scheduler and worker take an eighth
of a core from the tasks. These settings override the user's Dask configuration; the rest of it still applies.
"""


END_RUNS_S = 12.0
"""How long to wait for the controller to end all runs: longer than the controller waits for each of them."""
CLOSE_S = 8.0
"""How long Dask may take to close. Processes that still exist after that are killed."""


class ClusterProcess:
    """Starts, scales and closes one cluster."""

    def __init__(self, request: ClusterRequest, ready_fd: int) -> None:
        self.request = request
        self._ready_fd = ready_fd
        self._connection = connections.read(request.name)
        self._connection.speech = protocol.ours()  # the process that reserved the file may run another version
        self._token = self._connection.token
        self._directory = paths.machine_dir(self._token)
        self._stop = asyncio.Event()
        self._runs_ended = asyncio.Event()
        self._kind = registry.find_kind(request.kind)
        self._options = registry.options_of(self._kind, request)
        self._scope = self._token if self._kind.is_guest else ""
        self.lost_word = ""
        """Why the cluster is lost, if it was not closed by this process."""
        self.last_word = ""
        """A message for the user that the connection file keeps when the cluster ends."""

    async def run(self) -> None:
        """Start the cluster, run it until it is closed or lost, and clean up."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self._stop.set)
        # The warm process is started first because it takes longest and does not depend on Dask. On other machines, the
        # hosts start their own.
        shared = paths.shared_memory_dir(self._token)
        claims = [cluster_processes.claim(directory) for directory in (self._directory, shared)]
        sweeping = asyncio.create_task(asyncio.to_thread(cluster_processes.sweep))
        warm = None
        if self._kind.is_here:
            try:
                warm = start_warm(self._directory, shared)
            except OSError as error:  # the hosts try again
                logger.warning("The warm process could not be started yet: %s", error)
        try:
            await asyncio.to_thread(paths.close_to_others)
            await self._serve()
        finally:
            await asyncio.gather(sweeping, return_exceptions=True)
            if warm is not None:
                warm.kill()  # all hosts are gone; it would exit on its own, but only after importing TensorFlow
                await asyncio.to_thread(warm.wait)
            # Kill the processes that have not ended on request.
            await asyncio.to_thread(cluster_processes.end, self._token, but=_helpers())
            cluster_processes.remove([self._directory, shared])
            for claim in claims:
                os.close(claim)

    async def _serve(self) -> None:
        import dask.config

        from ..records import submission_files
        from ..records.archive import Archive
        from ..records.store import Store
        from .certificates import temporary_security
        from .reconnecting_link import HeldLink
        from .remote_output import OutputElsewhere
        from .saving import Saving
        from .sizing import Sizing
        from .starting_hosts import ComingTold

        # The scheduler's directory, by default shared by all users, can be set only in this way.
        dask.config.set({**QUIET_DASK, "temporary-directory": str(self._directory)})
        security = temporary_security()
        cluster = await self._create(security)
        if cluster is None:  # stopped before it was created
            return
        try:
            await self._install_controller(cluster)
            self._publish(cluster.scheduler_address, getattr(cluster, "security", None) or security)
            archive = Archive(lambda: Store(paths.store_path()))
            elsewhere = OutputElsewhere(paths.runs_dir())
            lost = asyncio.Event()
            sizing = None
            if not self._kind.is_guest:
                sizing = Sizing(cluster, partial(self._kind.hosts, self._options), rest_of(self._options))
            on_message = partial(self._on_message, sizing=sizing, archive=archive, elsewhere=elsewhere)
            why_gone = cluster.words_of_end if self._kind.scheduler_is_elsewhere else None
            link = await HeldLink.open(self._connection, on_message, lost.set, why_gone)
            saving = Saving(archive, link, self._connection)
            archive.on_change = saving.look
            archive.on_end = submission_files.forget_if_useless
            await archive.open()
            coming = ComingTold(cluster, link)
            if sizing is not None:
                sizing.begin(link, coming, self.request.jobs)
            await _first_of(self._stop, lost)
            words = ""
            if lost.is_set() and not self._stop.is_set() and self._kind.scheduler_is_elsewhere:
                words = await cluster.last_words()
            self._connection.state = ClusterState.STOPPING
            self._write_connection()
            if not lost.is_set():
                with contextlib.suppress(ClusterLost, asyncio.TimeoutError):  # runs then do not end cleanly
                    await asyncio.wait_for(link.request("end_runs"), END_RUNS_S)
                    await asyncio.wait_for(_first_of(self._runs_ended, lost), END_RUNS_S)
            self.last_word = " ".join(filter(None, [words, await saving.finish(self._write_connection)]))
            if self._kind.is_guest and lost.is_set():
                self.lost_word = f"The scheduler at {cluster.scheduler_address} is gone or can no longer be reached"
            elif self._kind.is_guest:  # while the link is open, so the controller knows that this process waits
                await cluster.leave()
            await link.close()
            elsewhere.close_all()
        finally:
            await close_dask(cluster)

    async def _create(self, security: Any) -> Any:
        """Create the Dask cluster. Returns None if this process is asked to stop first."""
        self._kind.tell_start = self._tell_start
        creating = asyncio.ensure_future(self._kind.create(self._options, security, self._directory))
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait({creating, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not creating.done():
            creating.cancel()
            await asyncio.gather(creating, return_exceptions=True)
            if creating.cancelled() or creating.exception() is not None:
                return None
        return creating.result()

    def _tell_start(self, words: str) -> None:
        """Write to the connection file what the start of the cluster is waiting for."""
        if self._connection.message != words:
            self._connection.message = words
            self._write_connection()

    async def _install_controller(self, cluster: Any) -> None:
        from ..kinds.remote_scheduler import register
        from .controller import Controller
        from .settings import ControllerSettings

        settings = ControllerSettings(
            request=self.request,
            token=self._token,
            runs=Mark.of(paths.runs_dir()),
            created=self._connection.created,
            defaults=self._kind.task_defaults(self._options),
            scope=self._scope,
            abandon=cluster.abandon if self._kind.scheduler_is_elsewhere else None,
        )
        await register(cluster, Controller(settings))

    def _publish(self, address: str, security: Any) -> None:
        """Write the cluster's address and certificates to the connection file."""
        self._connection.address = address
        self._connection.scope = self._scope
        self._connection.ca = security.tls_ca_file or ""
        self._connection.cert = security.tls_client_cert or ""
        self._connection.key = security.tls_client_key or ""
        self._connection.state = ClusterState.RUNNING
        self._connection.message = ""
        connections.write(self._connection)
        self._tell_ready()

    def leave_word(self, message: str, state: ClusterState = ClusterState.FAILED) -> None:
        """Write to the connection file why the cluster is gone, or what happened to its runs."""
        leave_word(self._connection, message, state)
        self._tell_ready()

    def _write_connection(self) -> None:
        with contextlib.suppress(OSError):  # the disk is full: viewers see the old state and retry
            connections.write(self._connection)

    def _tell_ready(self) -> None:
        if self._ready_fd >= 0:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._ready_fd, b"r")
            os.close(self._ready_fd)
            self._ready_fd = -1

    def _on_message(self, message: dict[str, Any], sizing: Any, archive: Any, elsewhere: Any) -> None:
        match message["op"]:
            case "run":
                archive.put_run(convert(message["info"], RunDescriptor))
            case "event":
                archive.append(message["run"], message["seq"], message["data"])
                if not self._kind.is_here:
                    elsewhere.take(message["run"], message["data"])
            case "cluster" if sizing is not None:
                sizing.look(message["info"]["jobs"], is_busy=message["info"]["active_runs"] > 0)
            case "close":
                self._stop.set()
            case "ended":
                self._runs_ended.set()


async def close_dask(cluster: Any) -> None:
    """Close a Dask cluster. If all of its workers have ended, an exception raised by Dask is only logged.

    If a connection is being made when a scheduler closes, ``ConnectionPool`` may cancel it twice (once for the worker
    that has left, once for the end) and then raise "Cannot change state of expiring Timeout".
    """
    try:
        await asyncio.wait_for(cluster.close(), CLOSE_S)
    except asyncio.TimeoutError:
        logger.warning("Dask did not close within %g s; its remaining processes are killed", CLOSE_S)
    except Exception:
        if getattr(cluster, "workers", True):
            raise
        logger.exception("Dask's scheduler did not close cleanly; its workers had ended")


async def _first_of(*events: asyncio.Event) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()


def _helpers() -> set[int]:
    """Return the process ids of Python's own helpers, which end with this process."""
    from multiprocessing import resource_tracker

    pid = getattr(resource_tracker._resource_tracker, "_pid", None)
    return {pid} if pid else set()


def _allow_files() -> None:
    """Raise the limit on open files to the maximum. Each host needs several, so the usual 1,024 may not be enough."""
    with contextlib.suppress(OSError, ValueError):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def leave_word(connection: connections.Connection, message: str, state: ClusterState = ClusterState.FAILED) -> None:
    """Reduce the connection file to a final message, which is short enough to be written even if the disk is full."""
    connection.state = state
    connection.message = message
    connection.address = connection.ca = connection.cert = connection.key = ""
    try:
        connections.write(connection)
    except OSError:
        logger.exception("The cluster's final message could not be written: %s", message)


def main(argv: list[str]) -> int:
    """Run the cluster named by ``argv[0]`` until it is closed."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    _allow_files()
    name, ready_fd = argv[0], int(argv[1])
    request = decode_json(sys.stdin.buffer.read(), ClusterRequest)
    request.name = name
    started = time.time()
    process: ClusterProcess | None = None
    try:
        process = ClusterProcess(request, ready_fd)
        asyncio.run(process.run())
    except Exception as error:
        logger.exception("The cluster %s failed after %.1f s", name, time.time() - started)
        message = str(error) if isinstance(error, DtfError) else f"{type(error).__name__}: {error}"
        if process is not None:
            process.leave_word(message)
        else:
            leave_word(connections.read(name), message)
        return 1
    if process.last_word or process.lost_word:
        state = ClusterState.LOST if process.lost_word else ClusterState.FAILED
        process.leave_word(". ".join(filter(None, [process.lost_word, process.last_word])), state)
        return 1
    connections.forget(name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
