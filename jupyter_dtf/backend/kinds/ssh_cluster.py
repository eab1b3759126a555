"""The Dask cluster of the kind ``ssh``: the scheduler runs here, and a nanny with its worker runs on each host."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import ipaddress
import logging
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import asyncssh
import dask.config
from distributed.deploy.cluster import Cluster
from distributed.deploy.spec import ProcessInterface, SpecCluster
from distributed.utils import get_ip_interface

from ...errors import InvalidInput, Unavailable
from ...schema.machines import ComingHost
from ..machine import cluster_processes, paths
from . import ssh_entries, ssh_keeper
from .dask_http import SilentScheduler
from .ssh_connection import HostProblem, Keeper
from .ssh_entries import HostEntry

logger = logging.getLogger(__name__)

NANNY = "jupyter_dtf.backend.kinds.ssh_nanny"
AGAIN_S = 2.0
"""The delay before a host that could not be used is retried. It is doubled each time, up to ``AGAIN_AT_MOST_S``."""
AGAIN_AT_MOST_S = 30.0
PATIENCE_S = 60.0
"""Seconds for which a host tries to reach the scheduler."""
ANY = "0.0.0.0"


class Setting:
    """The settings that all hosts of one cluster share."""

    def __init__(self, options: Mapping[str, Any], security: Any, token: str) -> None:
        self.options = options
        self.security = {name: getattr(security, name) for name in ("tls_ca_file", "tls_worker_cert", "tls_worker_key")}
        self.token = token
        self.port = 0
        self.fallback = ""
        """The address for hosts that SSH reaches over the loopback interface: this machine's address towards another
        host, or empty if there is none. With the option ``interface``, the address of that interface, for all hosts."""
        self._machines = {paths.machine_name(): ssh_keeper.identity()}

    def machine_of(self, keeper: Keeper) -> str:
        """Return the name of the host's machine: its own name, unless another machine of the cluster has that name."""
        identity = keeper.hello["identity"]
        wanted = [keeper.hello["machine"], keeper.entry.name, f"{keeper.entry.name}-{secrets.token_hex(2)}"]
        name = next(name for name in wanted if self._machines.get(name, identity) == identity)
        self._machines[name] = identity
        return str(name)

    def scheduler_for(self, keeper: Keeper) -> str:
        """Return the address at which a host reaches the scheduler."""
        address = self.options["address"] or self._address_towards(keeper)
        return f"tls://[{address}]:{self.port}" if ":" in address else f"tls://{address}:{self.port}"

    def _address_towards(self, keeper: Keeper) -> str:
        if self.options["interface"]:
            return self.fallback
        return self.fallback if _is_loopback(keeper.local_address) and self.fallback else keeper.local_address


class SshWorker(ProcessInterface):
    """A host of the cluster. Connects to the host, and reconnects whenever the connection is lost, until closed."""

    def __init__(
        self,
        scheduler: str,
        name: str,
        *,
        entry: HostEntry,
        setting: Setting,
        keeper: Keeper | None,
        problem: str,
        on_change: Callable[[SshWorker], None],
    ) -> None:
        super().__init__(scheduler=scheduler, name=name)
        self.entry = entry
        self.step = "connecting"
        self.problem = problem
        self._setting = setting
        self._keeper = keeper
        self._on_change = on_change
        self._living: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._living = asyncio.create_task(self._live())
        await super().start()

    async def close(self) -> None:
        """Shut down the worker, and wait until nothing is left on the host."""
        if self._living is not None:
            self._living.cancel()
            await asyncio.gather(self._living, return_exceptions=True)
        if self._keeper is not None:
            keeper, self._keeper = self._keeper, None
            await keeper.close()
        await super().close()

    def describe(self) -> ComingHost:
        """Return the host's progress."""
        return ComingHost(name=self.entry.name, step=self.step, problem=self.problem)

    async def _live(self) -> None:
        wait_s = AGAIN_S
        while True:
            try:
                if self._keeper is None:
                    self._keeper = await Keeper.open(self.entry, self._setting.options, self._at)
                self.problem = ""
                self._at("starting Dask")
                loop = asyncio.get_running_loop()
                began = loop.time()
                words = await self._keeper.run(NANNY, *self._asked(self._keeper))
                if loop.time() - began > PATIENCE_S:
                    wait_s = AGAIN_S
                raise HostProblem(f"The Dask worker there has ended{f': {words}' if words else ''}")
            except HostProblem as error:
                self.problem = str(error)
                logger.warning("Host %s: %s", self.entry.name, error)
            except Exception as error:
                self.problem = f"{type(error).__name__}: {error}"
                logger.exception("Host %s could not be used", self.entry.name)
            if self._keeper is not None:
                keeper, self._keeper = self._keeper, None
                await keeper.close()
            self._at("waiting")
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, AGAIN_AT_MOST_S)

    def _at(self, step: str) -> None:
        self.step = step
        self._on_change(self)

    def _asked(self, keeper: Keeper) -> tuple[dict[str, Any], dict[str, str]]:
        setting, options = self._setting, self._setting.options
        config = copy.deepcopy(dask.config.config)
        config.pop("temporary-directory", None)
        settings = {
            "token": setting.token,
            "scheduler": setting.scheduler_for(keeper),
            "name": self.entry.name,
            "threads": self.entry.threads or options["threads_per_host"],
            "memory_bytes": options["memory_per_host_bytes"],
            "tasks": self.entry.tasks,
            "interface": options["interface"],
            "security": setting.security,
            "dask": dask.config.serialize(config),
            "patience_s": PATIENCE_S,
        }
        environment = {
            cluster_processes.VARIABLE: setting.token,
            ssh_keeper.KEEPER: secrets.token_hex(8),
            paths.MACHINE: setting.machine_of(keeper),
        }
        if self.entry.gpus is not None:
            environment["CUDA_VISIBLE_DEVICES"] = self.entry.gpus
        return settings, environment


class SshCluster(SpecCluster):
    """A cluster of hosts, which are used in the order in which they were given."""

    def __init__(
        self,
        entries: Sequence[HostEntry],
        setting: Setting,
        ready: dict[str, Keeper],
        problems: dict[str, str],
        **more: Any,
    ) -> None:
        self._entries = list(entries)
        self._setting = setting
        self._ready = ready
        self._problems = problems
        self._known: dict[str, SshWorker] = {}
        self._tell: Callable[[list[ComingHost]], None] = lambda hosts: None
        super().__init__(workers={}, asynchronous=True, **more)

    # -- scaling ------------------------------------------------------------------------------------------------

    def scale(self, n: int = 0, memory: Any = None, cores: Any = None) -> Any:
        """Scale to the first ``n`` hosts."""
        scaled = super().scale(min(n, len(self._entries)))
        self._known = {name: worker for name, worker in self._known.items() if name in self.worker_spec}
        self._changed()
        return scaled

    def new_worker_spec(self) -> dict[str, Any]:
        entry = next(entry for entry in self._entries if entry.name not in self.worker_spec)
        options = {
            "entry": entry,
            "setting": self._setting,
            "keeper": self._ready.pop(entry.name, None),
            "problem": self._problems.pop(entry.name, ""),
            "on_change": self._on_change,
        }
        return {entry.name: {"cls": SshWorker, "options": options}}

    def _update_worker_status(self, op: str, msg: Any) -> None:
        """Override SpecCluster's method, which gives up on lost hosts; this cluster reconnects to them."""
        Cluster._update_worker_status(self, op, msg)

    async def _close(self) -> None:
        """Close all hosts first, in parallel, so that a host that does not respond does not delay the others."""
        idle = [keeper.close(at_once=True) for keeper in self._ready.values()]
        self._ready.clear()
        await asyncio.gather(*idle, *(worker.close() for worker in self.workers.values()), return_exceptions=True)
        await super()._close()

    # -- progress of hosts --------------------------------------------------------------------------------------

    def _on_change(self, worker: SshWorker) -> None:
        self._known[worker.entry.name] = worker
        self._changed()

    def watch_hosts(self, tell: Callable[[list[ComingHost]], None]) -> None:
        """Call ``tell(hosts)`` with all requested hosts, now and whenever one of them makes progress or fails."""
        self._tell = tell
        self._changed()

    def _changed(self) -> None:
        self._tell([self._describe(name) for name in self.worker_spec])

    def _describe(self, name: str) -> ComingHost:
        worker = self._known.get(name)
        return worker.describe() if worker is not None else ComingHost(name=name, step="connecting")


async def start(options: Mapping[str, Any], security: Any, token: str) -> SshCluster:
    """Start the scheduler and return the cluster. Raises InvalidInput, or Unavailable if no host can be used."""
    asyncssh.set_log_level(logging.WARNING)
    entries = ssh_entries.parse(options["hosts"])
    found = await asyncio.gather(*(_first_look(entry, options) for entry in entries))
    ready = {keeper.entry.name: keeper for keeper in found if isinstance(keeper, Keeper)}
    problems = {
        entry.name: str(each) for entry, each in zip(entries, found, strict=True) if isinstance(each, HostProblem)
    }
    for name, problem in problems.items():
        logger.warning("Host %s: %s", name, problem)
    try:
        if not ready:
            raise Unavailable(". ".join(f"Host {name}: {problem}" for name, problem in problems.items()))
        setting = Setting(options, security, token)
        listening = _listen_at(options, list(ready.values()), setting)
        cluster = SshCluster(
            entries,
            setting,
            ready,
            problems,
            scheduler={
                "cls": SilentScheduler,
                "options": {
                    "host": listening,
                    "port": 0,
                    "protocol": "tls",
                    "dashboard": False,
                    "dashboard_address": ":0",
                    "security": security,
                },
            },
            security=security,
        )
        cluster = await cluster
        scheduler: Any = cluster.scheduler
        setting.port = scheduler.port
        return cluster
    except BaseException:
        await asyncio.gather(*(keeper.close(at_once=True) for keeper in ready.values()), return_exceptions=True)
        raise


async def _first_look(entry: HostEntry, options: Mapping[str, Any]) -> Keeper | HostProblem:
    try:
        return await Keeper.open(entry, options, lambda step: None)
    except HostProblem as error:
        return error


def _listen_at(options: Mapping[str, Any], keepers: Sequence[Keeper], setting: Setting) -> str:
    """Return the address for the scheduler to listen on: one that all hosts can reach or, if there is none, ``ANY``.

    Sets ``setting.fallback``. Raises InvalidInput if the network interface does not exist.
    """
    if options["interface"]:
        try:
            setting.fallback = get_ip_interface(options["interface"])
        except (KeyError, ValueError) as error:
            raise InvalidInput(
                f"The network interface must exist on this machine, got {options['interface']!r} ({error})",
                field="options.interface",
            ) from None
        return ANY if options["address"] else setting.fallback
    towards = dict.fromkeys(keeper.local_address for keeper in keepers)
    outside = [address for address in towards if not _is_loopback(address)]
    setting.fallback = outside[0] if outside else ""
    if options["address"] or len(outside) > 1:
        return ANY
    return outside[0] if outside else next(iter(towards))


def _is_loopback(address: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(address).is_loopback
    return address == socket.gethostname()
