"""The controller in a scheduler that somebody else runs: its workers become hosts, and are left as they were.

Nothing is asked of Dask there that could end a worker. A worker that joins takes the plugin from the scheduler, sent as
text (``Visitor``), and tells why it can be no host, if it cannot. What workers say on their streams has to be heard
until the last of them has said farewell: Dask ends a worker whose word it does not know.
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

from ... import quiet
from ..._version import __version__
from ...schema.hosts import host_name
from ...schema.operations import scoped
from ..host import visitor
from ..kinds.base import ENDED
from ..machine import family, paths
from ..viewer.background import Background
from .installation import Installation

logger = logging.getLogger(__name__)

SETTLE_S = 20.0
"""A worker that has said nothing so long after it was sent the plugin is not waited for."""
FIRST_WORD_S = 60.0
"""How long a cluster process may take to attach; one that has gone before is not to be waited for either."""
VIEWERS_S = 5.0
"""How long viewers may take to see that the cluster is no more."""
ASK_S = 3.0
LOOK_S = 0.5
_MODULE = "jupyter_dtf_visitor"
"""What the text calls itself there."""
_MOST_DENIALS = 6
"""How often a worker that has said nothing says that it has no such plugin, until it is believed: it may be joining."""


class SentAsText:
    """Pickled, it is a ``Visitor`` made there, by what every Python has."""

    def __init__(self, *arguments: Any) -> None:
        self._names = {"text": inspect.getsource(visitor), "names": {"__name__": _MODULE}, "arguments": arguments}

    def __reduce__(self) -> tuple[Any, tuple[str, dict[str, Any]]]:
        return eval, ("(exec(text, names), names['Visitor'](*arguments))[1]", self._names)


class Guest:
    """One cluster's stay in ``scheduler``. ``coming(hosts)`` takes those of its workers that are no hosts yet.

    ``end()`` ends whatever the controller does there, and is awaited before anything is taken out;
    ``close_streams()`` is called when all is over, for viewers that have not left by themselves.
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

    # -- arriving -----------------------------------------------------------------------------------------------

    def settle(self, host: dict[str, Any]) -> None:
        """Send the workers the plugin: those that are here, and those that will join."""
        words = {word: scoped(f"dtf_{word}", self._token) for word in ("problem", "farewell")}
        plugin = pickle.dumps(SentAsText(self._installation.name, __version__, words, host))
        self._installation.hear({"dtf_problem": self.on_problem, "dtf_farewell": self.on_farewell})
        self._scheduler.worker_plugins[self._installation.name] = plugin
        for address in self._scheduler.workers:
            self._background.begin(self._ask(address, "plugin-add", plugin=plugin))
            self.worker_came(address)

    def worker_came(self, address: str) -> None:
        """A worker has joined, or is here; it takes the plugin."""
        self._tell()
        asyncio.get_running_loop().call_later(SETTLE_S, self._look_at, address)

    def worker_spoke(self, address: str) -> None:
        """It is a host."""
        if self._is_busy():  # which Dask, whose workers have no tasks of its own, may take for idle, and end
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
        """A host does not answer. Nobody waits for it, until it does."""
        self._problems[address] = "the worker does not answer"
        self._tell()

    def attached(self) -> None:
        """The cluster process is there: from now on it is known when it is no more."""
        self._first_word.cancel()

    def on_problem(self, worker: str, why: str) -> None:
        """A worker cannot be a host."""
        self._has_spoken.add(worker)
        self._problems[worker] = why
        logger.warning("The worker %s cannot be a host: %s", worker, why)
        self._tell()

    def on_farewell(self, worker: str) -> None:
        """A worker has nothing of this cluster any more, and says no more of it."""
        self._has_left.add(worker)

    def _look_at(self, address: str) -> None:
        if address in self._scheduler.workers and address not in self._has_spoken and self._leaving is None:
            self._problems[address] = f"the worker has not answered for {SETTLE_S:.0f} s"
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
        """What a worker answers; None if it does not."""
        with contextlib.suppress(OSError, asyncio.TimeoutError):
            return await asyncio.wait_for(getattr(self._scheduler.rpc(address), op)(**message), timeout_s)
        return None

    # -- what a person is told ----------------------------------------------------------------------------------

    @property
    def warnings(self) -> list[str]:
        """What a person should know of the scheduler."""
        address, told = self._scheduler.address, []
        if not self._scheduler.workers:
            told.append(f"The scheduler at {address} has no worker. A run waits for one: `dask worker {address}`")
        if address.startswith("tcp://"):
            told.append(
                f"The scheduler at {address} has no certificates: whoever reaches it or its workers can run programs "
                "there, and read what is sent to them. Start both with --tls-ca-file, --tls-cert and --tls-key"
            )
        return told

    def dashboard(self) -> str:
        """Where Dask's own dashboard is, which is not this cluster's to open."""
        port = self._scheduler.services.get("dashboard")
        where = f": http://{_host_of(self._scheduler.address)}:{port.port}/status" if port is not None else ""
        return f"Dask's dashboard is that of the scheduler, which somebody else runs{where}"

    # -- leaving ------------------------------------------------------------------------------------------------

    async def leave(self, wait_s: float) -> list[str]:
        """Take everything out again. Returns the workers that still have something after ``wait_s``.

        Those do not answer; as soon as they do, it is taken from them.
        """
        self.leave_soon()
        assert self._leaving is not None
        await asyncio.wait({self._leaving}, timeout=wait_s)
        return [] if self._leaving.done() else sorted(set(self._scheduler.workers) - self._has_left)

    def leave_soon(self) -> None:
        """The same, without waiting for it."""
        if self._leaving is None:
            self._leaving = asyncio.get_running_loop().create_task(self._leave())

    async def _leave(self) -> None:
        self._first_word.cancel()
        try:
            await self._end()
        except Exception:
            logger.exception("Not everything has ended in order")
        self._scheduler.worker_plugins.pop(self._installation.name, None)
        self._installation.stop_answering()
        await self._background.end()
        await asyncio.gather(*(self._take_from(address) for address in list(self._scheduler.workers)))
        self._installation.stop_hearing()
        for directory, claim in self._claims.items():
            os.close(claim)
            await asyncio.to_thread(family.sweep_one, directory)
        if "jupyter_dtf.client.cluster" not in sys.modules:  # it is not a person's own process
            quiet.speak()
            quiet.unhook()
        asyncio.get_running_loop().call_later(VIEWERS_S, self._close_streams)
        logger.info("The cluster has left the scheduler")

    async def _take_from(self, address: str) -> None:
        """Take the plugin from a worker, until it has said farewell or is gone."""
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
            claims[directory] = family.claim(directory)
    except OSError:
        for claim in claims.values():
            os.close(claim)
        raise
    return claims


def _host_of(address: str) -> str:
    return address.split("://", 1)[1].rpartition(":")[0]
