"""Watches the hosts for the controller: keeps their last reports, and detects and kills hosts that do not respond."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from ...errors import Unavailable
from ...schema.machines import HostInfo
from ..machine import paths
from ..machine.oom import OomWatch
from ..machine.processes import Handle, stat_of

logger = logging.getLogger(__name__)

SILENT_S = 4.0
"""Hosts report every 2 s. A host that has not reported for this long counts as not responding."""
LOOK_S = 1.0
_END_S = 3.0


class HostWatch:
    """The hosts, keyed by address.

    Args:
        rpc: ``rpc(address)`` connects to a host.
        remove: ``remove(address)`` makes Dask forget a worker.
        nanny_of: Returns the address of the nanny that would restart a worker, or None.
        on_change: Called when a host stops responding or responds again.
        are_ours: Whether hosts that do not respond are killed; otherwise they are only removed.
    """

    def __init__(
        self,
        rpc: Callable[[str], Any],
        remove: Callable[[str], Awaitable[Any]],
        nanny_of: Callable[[str], str | None],
        on_change: Callable[[], None],
        *,
        are_ours: bool = True,
    ) -> None:
        self.infos: dict[str, HostInfo] = {}
        self.leaving: dict[str, str] = {}
        """The reasons why hosts are about to leave, keyed by address."""
        self._are_ours = are_ours
        self._ended = "killed" if are_ours else "given up"
        self._rpc = rpc
        self._remove = remove
        self._nanny_of = nanny_of
        self._on_change = on_change
        self._heard: dict[str, float] = {}
        self._processes: dict[str, tuple[int, int]] = {}
        self._warnings: dict[str, list[str]] = {}
        self._silent: set[str] = set()
        self._oom = OomWatch()
        self._ending: dict[str, asyncio.Task[None]] = {}

    # -- reports ------------------------------------------------------------------------------------------------

    def tells(self, address: str, info: HostInfo, process: Collection[int], warnings: list[str]) -> None:
        """Store a host's report."""
        self.infos[address] = info
        pid, started = process or (0, 0)
        self._processes[address] = pid, started
        self._warnings[address] = list(warnings)
        self.hears(address)

    def hears(self, address: str) -> None:
        """Record that a message has arrived from a host."""
        self._heard[address] = _now()

    def gone(self, address: str) -> HostInfo | None:
        """Forget a host that has left. Returns its last info."""
        for known in (self._heard, self._processes, self._warnings, self.leaving):
            known.pop(address, None)
        self._silent.discard(address)
        return self.infos.pop(address, None)

    def how_it_goes(self, address: str) -> str:
        """Return a predicate that says why Dask has lost a host: ``went away`` if the cause cannot be determined."""
        if self.is_silent(address):
            return f"did not respond and was {self._ended}"
        info = self.infos.get(address)
        is_here = info is not None and info.machine == paths.machine_name()
        pid, _ = self._processes.get(address, (0, 0))
        if is_here and (memory := self._oom.explain(pid)):
            return f"was killed {memory}"
        return "went away"

    def is_silent(self, address: str) -> bool:
        """Return whether a host does not respond."""
        return address in self._silent

    @property
    def warnings(self) -> list[str]:
        """Warnings about the hosts."""
        then = "Stopping its runs, or the cluster, kills it" if self._are_ours else "Stopping its runs removes it"
        told = [
            f"The Dask worker {_place(info)} does not respond. {then}"
            for address, info in self.infos.items()
            if address in self._silent
        ]
        told += [
            f"The machine of the Dask worker {self._name(each)} is leaving ({why})"
            for each, why in self.leaving.items()
        ]
        for warnings in self._warnings.values():
            told += [each for each in warnings if each not in told]  # hosts on one machine share a warm process
        return told

    async def watch(self) -> None:
        """Check periodically, until cancelled, which hosts respond."""
        try:
            while True:
                before = _now()
                await asyncio.sleep(LOOK_S)
                late = _now() - before - LOOK_S
                if late > LOOK_S:  # this process itself was delayed and has not read messages
                    self._heard = {address: heard + late for address, heard in self._heard.items()}
                self._look()
        finally:
            self._oom.close()

    def _look(self) -> None:
        silent = {address for address, heard in self._heard.items() if _now() - heard > SILENT_S}
        if silent != self._silent:
            for address in silent - self._silent:
                logger.warning("The host %s does not respond", address)
            self._silent = silent
            try:
                self._on_change()
            except Exception:
                logger.exception("A change in the responsiveness of hosts could not be reported")

    # -- requests -----------------------------------------------------------------------------------------------

    async def ask(self, address: str, op: str, **message: Any) -> Any:
        """Send a request to a host and return its reply. Raises Unavailable if the host stops sending reports."""
        call = asyncio.ensure_future(getattr(self._rpc(address), op)(**message))
        try:
            while not (await asyncio.wait({call}, timeout=LOOK_S))[0]:
                if self.is_silent(address):
                    raise Unavailable(f"The Dask worker {self._name(address)} does not respond")
            return call.result()
        finally:
            if not call.done():
                call.cancel()

    async def tell(self, addresses: Collection[str], op: str, *, or_end: bool = False, **message: Any) -> None:
        """Send a message to hosts. Failures are logged; with ``or_end``, hosts that do not respond are killed."""

        async def tell(address: str) -> None:
            try:
                await self.ask(address, op, **message)
            except Unavailable:
                if not or_end:
                    raise
                await self.end(address)

        here = [address for address in addresses if address in self.infos]
        answers = await asyncio.gather(*map(tell, here), return_exceptions=True)
        for address, answer in zip(here, answers, strict=True):
            if isinstance(answer, Exception):
                logger.warning("%s of %s: %r", op, address, answer)

    # -- killing ------------------------------------------------------------------------------------------------

    async def end(self, address: str) -> None:
        """Kill a host that does not respond, and its tasks; Dask's nanny starts another host."""
        if address not in self._ending:
            task = self._ending[address] = asyncio.ensure_future(self._end(address))
            task.add_done_callback(lambda _: self._ending.pop(address, None))
        await asyncio.shield(self._ending[address])

    async def end_silent(self) -> None:
        """Kill all hosts that do not respond."""
        await asyncio.gather(*(self.end(address) for address in self._silent), return_exceptions=True)

    async def _end(self, address: str) -> None:
        logger.warning("The host %s does not respond and is %s", address, self._ended)
        if self._are_ours:
            await self._end_process(address)
        await self._remove(address)

    async def _end_process(self, address: str) -> None:
        if not await asyncio.to_thread(self._kill, address) and (nanny := self._nanny_of(address)) is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(self._rpc(nanny).kill(timeout=_END_S / 2), _END_S)

    def _kill(self, address: str) -> bool:
        """Kill a host if it is a process on this machine, even if it hangs. Returns whether it is dead."""
        info, (pid, started) = self.infos.get(address), self._processes.get(address, (0, 0))
        if info is None or info.machine != paths.machine_name() or not pid:
            return False
        try:
            handle = Handle(pid)
        except OSError:
            return False
        try:
            stat = stat_of(pid)
            if stat is None or stat.started != started:  # another machine with the same name, or another process
                return False
            handle.kill()
            return handle.wait(_END_S)
        finally:
            handle.close()

    def _name(self, address: str) -> str:
        info = self.infos.get(address)
        return f"{info.name} on {info.machine}" if info is not None else address


def _now() -> float:
    return asyncio.get_running_loop().time()


def _place(info: HostInfo) -> str:
    """Return a host's name, with its machine unless the name contains it."""
    return info.name if info.name.startswith(info.machine) else f"{info.name} on {info.machine}"
