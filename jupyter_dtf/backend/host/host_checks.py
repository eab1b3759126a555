"""The checks that a host runs on request, of its own condition and of its connections to other hosts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from ...errors import Unavailable
from ...schema.base import to_plain
from ...schema.checkup import Finding
from ..machine.facts import interface_of
from ..machine.gpus import read_gpus
from . import self_check
from .probes import Probe, dial_all, measure
from .self_check import SelfCheck
from .warm_keeper import WarmKeeper


class HostChecks:
    """The checks of one host of the cluster ``token``; ``address()`` is its address as other hosts know it."""

    def __init__(self, token: str, versions: Mapping[str, str], warm: WarmKeeper, address: Callable[[], str]) -> None:
        self._token = token
        self._warm = warm
        self._address = address
        self._self = SelfCheck(versions)
        self._probe: Probe | None = None

    def close(self) -> None:
        """Close the probe and stop the checks."""
        self.probe("")
        self._self.close()

    async def look(self) -> None:
        """Refresh the findings that take time to determine (``SelfCheck.look``)."""
        await self._self.look()

    def findings(self) -> list[Finding]:
        """Return the findings that are available immediately."""
        return self._self.findings(read_gpus(), self._warm.failure, is_imported=self._warm.is_ready)

    async def check(self, alive: list[str], clean: bool) -> dict[str, Any]:
        """Run this host's checks of itself. For ``alive`` and ``clean``, see ``self_check.left_over``."""
        await self.look()
        findings = self.findings()
        left = await asyncio.to_thread(self_check.left_over, [*alive, self._token], clean=clean)
        address = self._address()
        return {
            "time": time.time(),
            "address": address,
            "interface": interface_of(address),
            "findings": to_plain([*findings, *left]),
        }

    def probe(self, secret: str) -> str:
        """Open a probe for other hosts to connect to and return its endpoint. With an empty secret, close the probe."""
        if self._probe is not None:
            self._probe.close()
        self._probe = Probe(self._address(), secret) if secret else None
        return self._probe.endpoint if self._probe is not None else ""

    async def dial(self, places: dict[str, str], secret: str) -> dict[str, str]:
        """Connect to the probes of other hosts. Returns the reasons why some cannot be reached, keyed by host."""
        return await dial_all(places, secret)

    async def measure(self, place: str, secret: str) -> tuple[float, float]:
        """Return the bandwidth (bytes/s) and the round-trip time (s) to another host's probe. Raises Unavailable if the
        probe cannot be reached.
        """
        try:
            return await asyncio.to_thread(measure, place, secret)
        except OSError as error:
            raise Unavailable(str(error)) from None
