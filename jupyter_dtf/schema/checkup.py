"""What was looked at on a cluster's hosts, or on this machine, and what was found (``jupyter dtf doctor``)."""

from __future__ import annotations

from typing import NamedTuple

from .base import PeerStruct

OK, WARNING, ERROR = "ok", "warning", "error"
"""All is well; it will do, and should be looked after; a run cannot work so."""


class Finding(PeerStruct):
    """One thing that was looked at."""

    about: str
    """What that is, in a word or two: ``versions``, ``disk``."""
    text: str
    """What was found: sentences without the last full stop, which do not name the host."""
    level: str = OK


class HostCheckup(PeerStruct):
    """What was found on one host."""

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
    """Of one byte there and back."""


class Checkup(PeerStruct):
    """All of it. ``cluster`` is empty where it is this machine alone."""

    cluster: str = ""
    kind: str = ""
    hosts: list[HostCheckup] = []
    findings: list[Finding] = []
    """Of the cluster as a whole."""
    network: list[PairSpeed] = []

    @property
    def is_well(self) -> bool:
        """Whether there is nothing that should be looked after."""
        found = [*self.findings, *(finding for host in self.hosts for finding in host.findings)]
        return all(finding.level == OK for finding in found)


class Room(NamedTuple):
    """The room that there is where something is written."""

    what: str
    """What is written there: ``runs``."""
    path: str
    free_bytes: int
    total_bytes: int
    advice: str
    """What can be done when there is none."""
