"""Hosts of other versions than their cluster: those that differ are named, those of another protocol are not used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from ...schema import protocol
from ...schema.protocol import Speech


class HostVersions:
    """What each host has installed, by its address; ``own`` is what the cluster itself has."""

    def __init__(self, own: Mapping[str, str]) -> None:
        self._own = own
        self._hosts: dict[str, tuple[str, Mapping[str, str]]] = {}
        self._compared: dict[str, str] | None = None  # what was found, until a host says something else
        self._refused: dict[str, tuple[str, str]] = {}

    def tells(self, address: str, name: str, versions: Mapping[str, str]) -> None:
        """A host that can be used has told of itself."""
        self._refused.pop(address, None)
        if self._hosts.get(address) != (name, versions):
            self._hosts[address] = name, versions
            self._compared = None

    def refuses(self, address: str, name: str, speech: Speech) -> bool:
        """Whether a host cannot be used, because it speaks no protocol that is understood here."""
        if refusal := protocol.host_refusal(name, speech):
            self._refused[address] = name, refusal
        return bool(refusal)

    def is_refused(self, address: str) -> bool:
        """Whether a host is not used."""
        return address in self._refused

    def gone(self, address: str) -> None:
        """A host has gone."""
        self._refused.pop(address, None)
        if self._hosts.pop(address, None) is not None:
            self._compared = None

    @property
    def refused(self) -> set[str]:
        """The names of hosts that are not used."""
        return {name for name, _ in self._refused.values()}

    @property
    def refusals(self) -> list[str]:
        """A sentence for each host that is not used."""
        return [refusal for _, refusal in self._refused.values()]

    def problem(self, address: str) -> str:
        """What a host has otherwise than its cluster, both versions of each; empty where it has the same."""
        return self._problems.get(address, "")

    @property
    def warnings(self) -> list[str]:
        """What a person should know of them, in one sentence for all that are alike."""
        alike: dict[str, list[str]] = {}
        for address, problem in self._problems.items():
            alike.setdefault(problem, []).append(self._hosts[address][0])
        told = [
            f"{'Hosts' if len(names) > 1 else 'Host'} {', '.join(sorted(names))} {'have' if len(names) > 1 else 'has'} "
            f"{problem}. Programs may fail or compute otherwise there: install the same versions on all hosts"
            for problem, names in alike.items()
        ]
        return [*self.refusals, *told]

    @property
    def _problems(self) -> dict[str, str]:
        """Compared when somebody asks, for hosts come and go by the thousand."""
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
    """What differs from what is ``usual``: in the cluster, or, of what it does without, in most hosts."""
    if not versions:  # it is of before they were told
        return ""
    return ", ".join(
        f"{package} {versions.get(package) or '(none)'} instead of {wanted}"
        for package, wanted in usual.items()
        if wanted and _counted(package, versions.get(package, "")) != _counted(package, wanted)
    )


def _counted(package: str, version: str) -> str:
    """As much of a version as matters: of Python not the last number."""
    return version.rpartition(".")[0] if package == "Python" else version


def _most(versions: Iterable[str]) -> str:
    """The version that is there most often; the higher one of two that are there as often."""
    counted = Counter(version for version in versions if version)
    return max(counted, key=lambda version: (counted[version], version), default="")
