"""Compares hosts' versions with those of their cluster: reports differences, and refuses incompatible hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from ...schema import protocol
from ...schema.protocol import Speech


class HostVersions:
    """The versions installed on each host, keyed by address. ``own``: the versions of the cluster itself."""

    def __init__(self, own: Mapping[str, str]) -> None:
        self._own = own
        self._hosts: dict[str, tuple[str, Mapping[str, str]]] = {}
        self._compared: dict[str, str] | None = None  # the differences, cached until a host's report changes
        self._refused: dict[str, tuple[str, str]] = {}

    def tells(self, address: str, name: str, versions: Mapping[str, str]) -> None:
        """Store the report of a host that can be used."""
        self._refused.pop(address, None)
        if self._hosts.get(address) != (name, versions):
            self._hosts[address] = name, versions
            self._compared = None

    def refuses(self, address: str, name: str, speech: Speech) -> bool:
        """Return whether a host cannot be used because it and this version have no protocol in common."""
        if refusal := protocol.host_refusal(name, speech):
            self._refused[address] = name, refusal
        return bool(refusal)

    def is_refused(self, address: str) -> bool:
        """Return whether a host has been refused."""
        return address in self._refused

    def gone(self, address: str) -> None:
        """Forget a host that has left."""
        self._refused.pop(address, None)
        if self._hosts.pop(address, None) is not None:
            self._compared = None

    @property
    def refused(self) -> set[str]:
        """The names of refused hosts."""
        return {name for name, _ in self._refused.values()}

    @property
    def refusals(self) -> list[str]:
        """A sentence for each refused host."""
        return [refusal for _, refusal in self._refused.values()]

    def problem(self, address: str) -> str:
        """Return how a host's versions differ from the cluster's; empty if they do not."""
        return self._problems.get(address, "")

    @property
    def warnings(self) -> list[str]:
        """Warnings about the hosts, with equal ones combined into one sentence."""
        alike: dict[str, list[str]] = {}
        for address, problem in self._problems.items():
            alike.setdefault(problem, []).append(self._hosts[address][0])
        told = [
            f"{'Hosts' if len(names) > 1 else 'Host'} {', '.join(sorted(names))} {'have' if len(names) > 1 else 'has'} "
            f"{problem}. Programs may fail or give different results there: install the same versions on all hosts"
            for problem, names in alike.items()
        ]
        return [*self.refusals, *told]

    @property
    def _problems(self) -> dict[str, str]:
        """The differences, keyed by address; computed lazily because thousands of hosts may join and leave."""
        if self._compared is None:
            told = [versions for _, versions in self._hosts.values()]
            usual = {
                package: own or _most(versions.get(package, "") for versions in told)
                for package, own in self._own.items()
            }
            found = {address: _problem(versions, usual) for address, (_, versions) in self._hosts.items()}
            self._compared = {address: problem for address, problem in found.items() if problem}
        return self._compared


def _problem(versions: Mapping[str, str], usual: Mapping[str, str]) -> str:
    """Return the differences from ``usual`` in words; empty if there are none.

    ``usual`` has the expected version of each package: the cluster's, or that of most hosts if the cluster lacks the
    package.
    """
    if not versions:  # an old host that does not report versions
        return ""
    return ", ".join(
        f"{package} {versions.get(package) or '(none)'} instead of {wanted}"
        for package, wanted in usual.items()
        if wanted and _counted(package, versions.get(package, "")) != _counted(package, wanted)
    )


def _counted(package: str, version: str) -> str:
    """Return the part of a version that is compared: for Python, the version without the patch level."""
    return version.rpartition(".")[0] if package == "Python" else version


def _most(versions: Iterable[str]) -> str:
    """Return the most frequent version; among equally frequent ones, the one that sorts last."""
    counted = Counter(version for version in versions if version)
    return max(counted, key=lambda version: (counted[version], version), default="")
