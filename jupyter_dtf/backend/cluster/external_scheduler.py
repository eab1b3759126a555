"""Runs the controller in an external scheduler: makes its workers hosts, and later restores their previous state.

Nothing here may make Dask shut down a worker. A joining worker gets a plugin from the scheduler, sent as source text
(``Visitor``); if the worker cannot be a host, the plugin reports the reason. The operations of the workers' streams
must stay registered until the last worker has sent its farewell, because Dask shuts down a worker that sends an unknown
operation.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ... import tensorflow_chatter
from ..._version import __version__
from ...schema.hosts import host_name
from ...schema.operations import scoped
from ..host import external_worker
from ..kinds.base import ENDED
from ..machine import cluster_processes, paths
from ..viewer.background import Background
from .installation import Installation

logger = logging.getLogger(__name__)

SETTLE_S = 20.0
"""How long to wait for a first report from a worker after it was sent the plugin."""
FIRST_WORD_S = 60.0
"""How long to wait for the cluster process to attach. It may have died before attaching."""
VIEWERS_S = 5.0
"""How long viewers may take to notice that the cluster is gone."""
ASK_S = 3.0
LOOK_S = 0.5
_MODULE = "jupyter_dtf_visitor"
"""The name of the module that is created from the plugin's source text on the worker."""
_MOST_DENIALS = 6
"""How often a worker that has sent no report must reply that it lacks the plugin before this is believed: a worker that
is still joining may receive the plugin after its first replies.
"""


class SentAsText:
    """Unpickles as a ``Visitor`` that is created from its source text, using only builtins of every Python version."""

    def __init__(self, *arguments: Any) -> None:
        self._names = {
            "text": inspect.getsource(external_worker),
            "names": {"__name__": _MODULE},
            "arguments": arguments,
        }

    def __reduce__(self) -> tuple[Any, tuple[str, dict[str, Any]]]:
        return eval, ("(exec(text, names), names['Visitor'](*arguments))[1]", self._names)


class Guest:
    """One cluster's presence in an external scheduler.

    Args:
        scheduler: The scheduler.
        installation: Adds operations to the scheduler and removes them.
        token: The cluster's token.
        is_host: Returns whether the worker at an address is a known host, usable or not.
        is_busy: Returns whether any run is active.
        coming: Called with the workers that are not hosts yet.
        end: Ends everything that the controller does in the scheduler; awaited before anything is removed.
        close_streams: Called at the very end, for viewers that have not disconnected on their own.
    """

    def __init__(
        self,
        scheduler: Any,
        installation: Installation,
        *,
        token: str,
        is_host: Callable[[str], bool],
        is_busy: Callable[[], bool],
        coming: Callable[[list[dict[str, Any]]], None],
        end: Callable[[], Any],
        close_streams: Callable[[], None],
    ) -> None:
        self._scheduler = scheduler
        self._installation = installation
        self._token = token
        self._is_host = is_host
        self._is_busy = is_busy
        self._coming = coming
        self._end = end
        self._close_streams = close_streams
        self._background = Background()
        self._problems: dict[str, str] = {}
        self._has_spoken: set[str] = set()
        self._has_left: set[str] = set()
        self._leaving: asyncio.Task[None] | None = None
        self._claims = _claims(paths.machine_dir(token), paths.shared_memory_dir(token))
        self._first_word = asyncio.get_running_loop().call_later(FIRST_WORD_S, self.leave_soon)

    # -- arrival ------------------------------------------------------------------------------------------------

    def settle(self, host: dict[str, Any]) -> None:
        """Send the plugin to all current workers, and have the scheduler send it to workers that join later."""
        words = {word: scoped(f"dtf_{word}", self._token) for word in ("problem", "farewell")}
        plugin = pickle.dumps(SentAsText(self._installation.name, __version__, words, host))
        self._installation.hear({"dtf_problem": self.on_problem, "dtf_farewell": self.on_farewell})
        self._scheduler.worker_plugins[self._installation.name] = plugin
        for address in self._scheduler.workers:
            self._background.begin(self._ask(address, "plugin-add", plugin=plugin))
            self.worker_came(address)

    def worker_came(self, address: str) -> None:
        """Start waiting, for up to ``SETTLE_S`` seconds, for the first report of a worker that was sent the plugin."""
        self._tell()
        asyncio.get_running_loop().call_later(SETTLE_S, self._look_at, address)

    def worker_spoke(self, address: str) -> None:
        """Record that a worker has reported as a host."""
        if self._is_busy():  # Dask has no tasks of its own, so it might consider itself idle and shut down
            self._scheduler.idle_since = None
        if address not in self._has_spoken or address in self._problems:
            self._has_spoken.add(address)
            self._problems.pop(address, None)
            self._tell()

    def worker_gone(self, address: str) -> None:
        self._problems.pop(address, None)
        self._has_spoken.discard(address)
        self._tell()

    def gave_up(self, address: str) -> None:
        """Record that a host does not respond. It is ignored until it responds again."""
        self._problems[address] = "the worker does not respond"
        self._tell()

    def attached(self) -> None:
        """Record that the cluster process has attached. From now on, its end is detected."""
        self._first_word.cancel()

    def on_problem(self, worker: str, why: str) -> None:
        """Handle a worker's report that it cannot be a host."""
        self._has_spoken.add(worker)
        self._problems[worker] = why
        logger.warning("The worker %s cannot be a host: %s", worker, why)
        self._tell()

    def on_farewell(self, worker: str) -> None:
        """Handle a worker's farewell: nothing of this cluster is left on it, and it sends no further messages."""
        self._has_left.add(worker)

    def _look_at(self, address: str) -> None:
        if address in self._scheduler.workers and address not in self._has_spoken and self._leaving is None:
            self._problems[address] = f"the worker has not responded for {SETTLE_S:.0f} s"
            self._tell()

    def _tell(self) -> None:
        if self._leaving is not None:
            return
        told = []
        for address, worker in self._scheduler.workers.items():
            if not self._is_host(address):
                problem = self._problems.get(address, "")
                step = ENDED if problem else "importing"
                told.append({"name": host_name(worker.name), "step": step, "problem": problem})
        self._coming(told)

    async def _ask(self, address: str, op: str, timeout_s: float | None = None, **message: Any) -> Any:
        """Return a worker's reply, or None if it does not respond."""
        with contextlib.suppress(OSError, asyncio.TimeoutError):
            return await asyncio.wait_for(getattr(self._scheduler.rpc(address), op)(**message), timeout_s)
        return None

    # -- messages for people ------------------------------------------------------------------------------------

    @property
    def warnings(self) -> list[str]:
        """Warnings about the scheduler."""
        address, told = self._scheduler.address, []
        if not self._scheduler.workers:
            told.append(f"The scheduler at {address} has no worker. Runs wait until one joins: `dask worker {address}`")
        if address.startswith("tcp://"):
            told.append(
                f"The scheduler at {address} has no certificates: anyone who can reach it or its workers can run "
                "programs there, and read what is sent to them. Start both with --tls-ca-file, --tls-cert and --tls-key"
            )
        return told

    def dashboard(self) -> str:
        """Return a sentence that says where Dask's own dashboard is, because this cluster cannot start a dashboard."""
        port = self._scheduler.services.get("dashboard")
        where = f": http://{_host_of(self._scheduler.address)}:{port.port}/status" if port is not None else ""
        return f"Dask's dashboard belongs to the scheduler, which somebody else runs{where}"

    # -- departure ----------------------------------------------------------------------------------------------

    async def leave(self, wait_s: float) -> list[str]:
        """Remove this cluster from the scheduler.

        Returns the workers that have not been cleaned up within ``wait_s`` seconds. These workers have not responded;
        each is cleaned up once it responds.
        """
        self.leave_soon()
        assert self._leaving is not None
        await asyncio.wait({self._leaving}, timeout=wait_s)
        return [] if self._leaving.done() else sorted(set(self._scheduler.workers) - self._has_left)

    def leave_soon(self) -> None:
        """Start leaving the scheduler in the background, unless this was already started."""
        if self._leaving is None:
            self._leaving = asyncio.get_running_loop().create_task(self._leave())

    async def _leave(self) -> None:
        self._first_word.cancel()
        try:
            await self._end()
        except Exception:
            logger.exception("The controller did not shut down cleanly before leaving the scheduler")
        self._scheduler.worker_plugins.pop(self._installation.name, None)
        self._installation.stop_answering()
        await self._background.end()
        await asyncio.gather(*(self._take_from(address) for address in list(self._scheduler.workers)))
        self._installation.stop_hearing()
        for directory, claim in self._claims.items():
            os.close(claim)
            await asyncio.to_thread(cluster_processes.sweep_one, directory)
        if "jupyter_dtf.client.cluster" not in sys.modules:  # not a process in which a person uses this package
            tensorflow_chatter.speak()
            tensorflow_chatter.unhook()
        asyncio.get_running_loop().call_later(VIEWERS_S, self._close_streams)
        logger.info("The cluster has left the scheduler")

    async def _take_from(self, address: str) -> None:
        """Remove the plugin from a worker, retrying until it has sent its farewell or is gone."""
        wait_s, denials = ASK_S, 0
        while address in self._scheduler.workers and address not in self._has_left:
            answer = await self._ask(address, "plugin-remove", timeout_s=wait_s, name=self._installation.name)
            if answer is None:
                wait_s *= 2
            elif answer.get("status") != "OK" and address not in self._has_spoken:
                denials += 1
                if denials == _MOST_DENIALS:
                    return
            if address not in self._has_left:
                await asyncio.sleep(LOOK_S)


def _claims(*directories: Path) -> dict[Path, int]:
    claims: dict[Path, int] = {}
    try:
        for directory in directories:
            claims[directory] = cluster_processes.claim(directory)
    except OSError:
        for claim in claims.values():
            os.close(claim)
        raise
    return claims


def _host_of(address: str) -> str:
    return address.split("://", 1)[1].rpartition(":")[0]
