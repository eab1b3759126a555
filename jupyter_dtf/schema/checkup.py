"""The findings of a check of a cluster's hosts, or of this machine (``jupyter dtf doctor``)."""

from __future__ import annotations

from typing import NamedTuple

from .base import PeerStruct

OK, WARNING, ERROR = "ok", "warning", "error"
"""No problem; a problem that runs can live with; a problem that prevents runs."""


class Finding(PeerStruct):
    """One thing that was checked."""

    about: str
    """The subject in a word or two: ``versions``, ``disk``."""
    text: str
    """The finding: sentences without the final full stop, which do not name the host."""
    level: str = OK


class HostCheckup(PeerStruct):
    """The findings about one host."""

    name: str
    address: str = ""
    interface: str = ""
    """The network interface that has the address."""
    findings: list[Finding] = []


class PairSpeed(PeerStruct):
    """How fast one host sends to another, measured one pair of hosts at a time."""

    source: str
    target: str
    bytes_per_second: float
    latency_seconds: float
    """The round trip time of one byte."""


class Checkup(PeerStruct):
    """A complete check. ``cluster`` is empty if only this machine was checked."""

    cluster: str = ""
    kind: str = ""
    hosts: list[HostCheckup] = []
    findings: list[Finding] = []
    """Findings about the cluster as a whole."""
    network: list[PairSpeed] = []

    @property
    def is_well(self) -> bool:
        """Whether there are no problems."""
        found = [*self.findings, *(finding for host in self.hosts for finding in host.findings)]
        return all(finding.level == OK for finding in found)


class FreeSpace(NamedTuple):
    """The free space in a directory that is written to."""

    what: str
    """What is written there: ``runs``."""
    path: str
    free_bytes: int
    total_bytes: int
    advice: str
    """What to do if there is none."""
