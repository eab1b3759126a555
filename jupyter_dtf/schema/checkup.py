"""The findings of a check of a cluster's hosts, or of this machine (``jupyter dtf doctor``)."""

from __future__ import annotations

from typing import NamedTuple

from .base import PeerStruct

OK, WARNING, ERROR = "ok", "warning", "error"
"""The levels of a finding: no problem; a problem that does not prevent runs; a problem that prevents runs."""


class Finding(PeerStruct):
    """The result of one check."""

    about: str
    """The subject in one or two words, such as ``versions`` or ``disk``."""
    text: str
    """Sentences that describe the finding, without a final period and without the host's name."""
    level: str = OK


class HostCheckup(PeerStruct):
    """All findings about one host."""

    name: str
    address: str = ""
    interface: str = ""
    """The network interface that has the address."""
    findings: list[Finding] = []


class PairSpeed(PeerStruct):
    """The speed at which one host sends data to another, measured for one pair of hosts at a time."""

    source: str
    target: str
    bytes_per_second: float
    latency_seconds: float
    """The round-trip time of one byte."""


class Checkup(PeerStruct):
    """All results of a check. ``cluster`` is empty if only this machine was checked."""

    cluster: str = ""
    kind: str = ""
    hosts: list[HostCheckup] = []
    findings: list[Finding] = []
    """Findings about the cluster as a whole."""
    network: list[PairSpeed] = []

    @property
    def is_well(self) -> bool:
        """Whether the check found no problems."""
        found = [*self.findings, *(finding for host in self.hosts for finding in host.findings)]
        return all(finding.level == OK for finding in found)


class FreeSpace(NamedTuple):
    """The free space of a directory to which files are written."""

    what: str
    """The kind of files written there, such as ``runs``."""
    path: str
    free_bytes: int
    total_bytes: int
    advice: str
    """What to do if no space is left."""
