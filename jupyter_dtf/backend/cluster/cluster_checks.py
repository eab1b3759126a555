"""Checks a cluster's hosts. Cheap checks run before each gang starts and whenever the cluster's card is updated; all of
them run only on request.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from ...errors import GangIncomplete
from ...schema.base import convert
from ...schema.checkup import ERROR, OK, WARNING, Checkup, Finding, HostCheckup
from ...schema.machines import HostInfo
from ...schema.sizes import bytes_
from ..planning.host_findings import of_clock, worse
from ..planning.launch_plan import PlannedTask
from .active_run import Run
from .host_versions import HostVersions
from .open_ports import open_ports
from .reachability import Reach

_READINGS = 5
"""The number of readings of a host's clock that are kept. The reading with the shortest delay is used."""
_MOST_NAMED = 10


class ClusterChecks:
    """The checks of one cluster's hosts.

    Args:
        ask: ``ask(address, op, **message)`` sends a request to a host.
        infos: The last info of each host, keyed by address.
        versions: The versions installed on the hosts.
        machine: The name of this machine. Hosts on it share its clock.
    """

    def __init__(
        self,
        ask: Callable[..., Awaitable[Any]],
        infos: Mapping[str, HostInfo],
        versions: HostVersions,
        machine: str,
    ) -> None:
        self._ask = ask
        self._infos = infos
        self._versions = versions
        self._machine = machine
        self._reach = Reach(ask, infos)
        self._told: dict[str, list[Finding]] = {}
        self._behind: dict[str, deque[float]] = {}

    # -- reports of hosts ---------------------------------------------------------------------------------------

    def tells(self, address: str, findings: Iterable[Mapping[str, Any]], clock: float) -> None:
        """Store a host's findings about itself, and the time on its clock (seconds since the epoch; 0 if not sent)."""
        self._told[address] = [convert(finding, Finding) for finding in findings]
        info = self._infos.get(address)
        if clock and info is not None and info.machine != self._machine:
            self._behind.setdefault(address, deque(maxlen=_READINGS)).append(time.time() - clock)

    def gone(self, address: str) -> None:
        """Forget a host that has left."""
        self._told.pop(address, None)
        self._behind.pop(address, None)
        self._reach.gone(address)

    @property
    def warnings(self) -> list[str]:
        """Warnings about the hosts. Equal warnings about several hosts are combined into one sentence."""
        return [f"{names}: {finding.text}" for names, finding in self._known(self._infos)]

    def _known(self, addresses: Iterable[str]) -> list[tuple[str, Finding]]:
        """Return ``(hosts, finding)`` for each problem known from reports, with the hosts in words: ``Host a``."""
        alike: dict[tuple[str, str, str], list[str]] = {}
        for address in addresses:
            info = self._infos.get(address)
            found = [*self._told.get(address, ()), *worse(self._clock(address))] if info is not None else []
            for finding in found:
                alike.setdefault((finding.about, finding.text, finding.level), []).append(info.name if info else "")
        return [
            (_hosts(names), Finding(about=about, text=text, level=level))
            for (about, text, level), names in alike.items()
        ]

    def _clock(self, address: str) -> list[Finding]:
        behind = self._behind.get(address, ())
        if len(behind) < _READINGS:
            return []
        return [of_clock(-min(behind, key=abs), 0.0)]

    # -- before a gang ------------------------------------------------------------------------------------------

    async def before(self, run: Run, planned: Sequence[PlannedTask]) -> None:
        """Check a run's hosts. Problems are recorded as notes in the run's events.

        Raises:
            GangIncomplete: If hosts of a training run cannot reach each other.
        """
        addresses = list(dict.fromkeys(task.host.address for task in planned))
        for names, finding in self._known(addresses):
            run.note("warning", f"{names}: {finding.about}", finding.text)
        differing: dict[str, list[str]] = {}
        for address in addresses:
            if (problem := self._versions.problem(address)) and address in self._infos:
                differing.setdefault(problem, []).append(self._infos[address].name)
        for problem, hosts in differing.items():
            run.note(
                "warning",
                f"{_hosts(hosts)}: different versions",
                f"{problem}. Programs may fail or give different results",
            )
        if not (apart := self._sentences(await self._reach.look(addresses))):
            return
        if run.info.kind == "fit":
            raise GangIncomplete(f"The hosts of this run cannot reach each other. {'; '.join(apart)}")
        run.note("warning", "Hosts cannot reach each other", "; ".join(apart))

    def _sentences(self, unreached: Iterable[tuple[str, str, str]]) -> list[str]:
        told = [f"{self._place(source)} cannot reach {self._place(target)}: {why}" for source, target, why in unreached]
        more = len(told) - _MOST_NAMED
        return [*told[:_MOST_NAMED], f"and {more} more"] if more > 0 else told

    def _place(self, address: str) -> str:
        info = self._infos.get(address)
        return f"{info.name if info else ''} at {_address(address)}".strip()

    # -- on request ---------------------------------------------------------------------------------------------

    async def all(self, name: str, kind: str, *, network: bool, clean: bool, alive: Collection[str]) -> Checkup:
        """Run all checks on all hosts.

        Args:
            name: The cluster's name.
            kind: The cluster's kind.
            network: Whether to measure the bandwidth between hosts as well.
            clean: Whether hosts should remove leftovers of clusters that no longer exist.
            alive: Tokens of clusters that are known to be alive.

        Returns:
            The findings about each host and about the cluster, and the bandwidths (if ``network``).
        """
        addresses = sorted(self._infos, key=lambda address: self._infos[address].name)
        hosts = list(await asyncio.gather(*(self._of_host(address, clean, alive) for address in addresses)))
        unreached = await self._reach.look(addresses, again=True)
        for address, host in zip(addresses, hosts, strict=True):
            host.findings += self._of_network(address, addresses, unreached)
        found = [Finding(about="ports", text=text, level=WARNING) for text in open_ports(self._infos.values())]
        if not found:
            found = [Finding(about="ports", text="the ports of TensorFlow's servers are closed to other users")]
        found += [Finding(about="versions", text=text, level=ERROR) for text in self._versions.refusals]
        if not addresses:
            found.append(Finding(about="hosts", text="there are no hosts, so nothing can run", level=ERROR))
        speeds = await self._reach.measure(addresses) if network else []
        return Checkup(cluster=name, kind=kind, hosts=hosts, findings=found, network=speeds)

    async def _of_host(self, address: str, clean: bool, alive: Collection[str]) -> HostCheckup:
        info = self._infos[address]
        host = HostCheckup(name=info.name, address=_address(address))
        begun = time.time()
        try:
            told = await self._ask(address, "dtf_check", alive=list(alive), clean=clean)
        except Exception as error:
            host.findings = [Finding(about="host", text=f"it does not respond: {error}", level=ERROR)]
            return host
        ended = time.time()
        host.interface = told["interface"]
        problem = self._versions.problem(address)
        versions = Finding(about="versions", text=problem or "same as the cluster's", level=WARNING if problem else OK)
        clock = of_clock(told["time"] - (begun + ended) / 2, (ended - begun) / 2)
        memory = Finding(about="machine", text=f"{info.threads} threads, {bytes_(info.memory_bytes)} of memory")
        found = [convert(finding, Finding) for finding in told["findings"]]
        host.findings = [memory, versions, *found[:1], clock, *found[1:]]
        return host

    def _of_network(
        self, address: str, addresses: Sequence[str], unreached: Sequence[tuple[str, str, str]]
    ) -> list[Finding]:
        own = [(source, target, why) for source, target, why in unreached if source == address]
        if own:
            return [Finding(about="network", text=text, level=ERROR) for text in self._sentences(own)]
        others = [each for each in addresses if self._infos[each].machine != self._infos[address].machine]
        if not others:
            return []
        named = _hosts([self._infos[each].name for each in others]).partition(" ")[2]
        return [Finding(about="network", text=f"it reaches {named}")]


def _address(address: str) -> str:
    """Return the host part of an address: ``10.0.0.2`` for ``tls://10.0.0.2:34567``."""
    return address.partition("://")[2].rpartition(":")[0] or address


def _hosts(names: Sequence[str]) -> str:
    """Describe hosts in words: ``Host a``, ``Hosts a, b``. If there are many, name the first and count the rest."""
    if len(names) == 1:
        return f"Host {names[0]}"
    named = ", ".join(sorted(names)[:_MOST_NAMED])
    return f"Hosts {named}" + (f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else "")
