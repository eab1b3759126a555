"""Tests whether hosts can reach each other, by making trial connections."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from ...schema.checkup import PairSpeed
from ...schema.machines import HostInfo
from ..planning.host_findings import pairs_to_try, rounds

logger = logging.getLogger(__name__)

FRESH_S = 60.0
"""A pair of hosts that was found to be connected within the last FRESH_S seconds is not tested again before a run."""

Ask = Callable[..., Awaitable[Any]]


class Reach:
    """Tests which hosts can reach each other.

    ``ask(address, op, **message)`` sends a request to a host. ``infos`` has each host's info, keyed by address.
    """

    def __init__(self, ask: Ask, infos: Mapping[str, HostInfo]) -> None:
        self._ask = ask
        self._infos = infos
        self._reached: dict[tuple[str, str], float] = {}  # when the source reached the target
        self._gone: dict[str, float] = {}  # when a host at that address left
        self._probing = asyncio.Lock()  # a host has only one probe

    def gone(self, address: str) -> None:
        """Record that a host has left. Another host may get its address."""
        self._gone[address] = asyncio.get_running_loop().time()

    async def look(self, addresses: Sequence[str], *, again: bool = False) -> list[tuple[str, str, str]]:
        """Test which hosts reach each other.

        Hosts on the same machine are not tested. A host that does not respond to the request for the test is left out.

        Args:
            addresses: The hosts.
            again: Whether to include pairs that were recently found to be connected.

        Returns:
            ``(source, target, why)`` for each failed connection.
        """
        now = asyncio.get_running_loop().time()
        self._forget(now)
        there = sorted({address for address in addresses if address in self._infos})
        pairs = [(there[source], there[target]) for source, target in pairs_to_try(len(there))]
        wanted = [
            (source, target)
            for source, target in pairs
            if self._infos[source].machine != self._infos[target].machine
            and (again or (source, target) not in self._reached)
        ]
        if not wanted:
            return []
        async with self._probes({target for _, target in wanted}) as (secret, places):
            by_source: dict[str, dict[str, str]] = {}
            for source, target in wanted:
                if target in places:
                    by_source.setdefault(source, {})[target] = places[target]
            answers = await asyncio.gather(
                *(self._ask(source, "dtf_dial", places=mine, secret=secret) for source, mine in by_source.items()),
                return_exceptions=True,
            )
        found = []
        for (source, tried), answer in zip(by_source.items(), answers, strict=True):
            if isinstance(answer, BaseException):
                logger.warning("The host %s could not test its connections: %r", source, answer)
                continue
            self._reached |= {(source, target): now for target in tried if target not in answer}
            for target in answer:
                self._reached.pop((source, target), None)
            found += [(source, target, why) for target, why in answer.items()]
        return found

    def _forget(self, now: float) -> None:
        """Drop results that are too old, or that are about a host that has left since."""
        gone, self._gone = self._gone, {}
        self._reached = {
            (source, target): when
            for (source, target), when in self._reached.items()
            if now - when < FRESH_S and when >= max(gone.get(source, when), gone.get(target, when))
        }

    async def measure(self, addresses: Sequence[str]) -> list[PairSpeed]:
        """Measure the bandwidth from every host to every other, with each host in only one pair at a time."""
        there = sorted({address for address in addresses if address in self._infos})
        found: list[PairSpeed] = []
        async with self._probes(there) as (secret, places):
            for pairs in rounds(len(there)):
                met = [(there[source], there[target]) for source, target in pairs if there[target] in places]
                answers = await asyncio.gather(
                    *(self._ask(source, "dtf_measure", place=places[target], secret=secret) for source, target in met),
                    return_exceptions=True,
                )
                for (source, target), answer in zip(met, answers, strict=True):
                    if isinstance(answer, BaseException):
                        logger.warning("The bandwidth from %s to %s could not be measured: %r", source, target, answer)
                        continue
                    speed, latency = answer
                    names = {"source": self._infos[source].name, "target": self._infos[target].name}
                    found.append(PairSpeed(**names, bytes_per_second=speed, latency_seconds=latency))
        return sorted(found, key=lambda pair: (pair.source, pair.target))

    @asynccontextmanager
    async def _probes(self, addresses: Iterable[str]) -> AsyncIterator[tuple[str, dict[str, str]]]:
        """Open probes on hosts. Yields the secret of the probes, and their endpoints keyed by host address."""
        secret, hosts = secrets.token_hex(32), sorted(addresses)
        async with self._probing:
            answers = await self._ask_all(hosts, secret)
            places = {}
            for address, answer in zip(hosts, answers, strict=True):
                if isinstance(answer, BaseException):
                    logger.warning("The host %s could not open a probe for the other hosts: %r", address, answer)
                else:
                    places[address] = str(answer)
            try:
                yield secret, places
            finally:
                await self._ask_all(places, "")

    async def _ask_all(self, addresses: Iterable[str], secret: str) -> list[Any]:
        asked = (self._ask(address, "dtf_probe", secret=secret) for address in addresses)
        return await asyncio.gather(*asked, return_exceptions=True)
