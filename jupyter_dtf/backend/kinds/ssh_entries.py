"""Parses the hosts of the kind ``ssh`` as a person writes them: ``alice@gpu1:2222 gpus=0+1``. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...errors import InvalidInput

_FIELD = "options.hosts"
_ENTRY = re.compile(
    r"(?:(?P<user>[^@\s\[\]]+)@)?"
    r"(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<host>[A-Za-z0-9_.-]+))"
    r"(?::(?P<port>[0-9]{1,5}))?\Z"
)
_GPUS = re.compile(r"[A-Za-z0-9-]+(\+[A-Za-z0-9-]+)*\Z")
HOW = "A host must be written as in alice@gpu1:2222, where user and port may be left out"


@dataclass(frozen=True)
class HostEntry:
    """One host, as given in the option ``hosts``."""

    name: str
    """The name of the host: as it was written, with a number if it was written more than once."""
    host: str
    user: str = ""
    """Empty: from SSH's configuration, else this user's name."""
    port: int = 0
    """0: from SSH's configuration, else 22."""
    gpus: str | None = None
    """The value of CUDA_VISIBLE_DEVICES there; None leaves it unchanged."""
    threads: int = 0
    """The number of threads for its tasks; 0: from the option ``threads_per_host``."""

    tasks: int = 0
    """The number of a run's tasks that the host gets, relative to other hosts; 0: as many as any other host."""

    @property
    def command(self) -> str:
        """The command to connect to the host manually."""
        port = f" -p {self.port}" if self.port else ""
        return f"ssh{port} {self.user}@{self.host}" if self.user else f"ssh{port} {self.host}"


def parse(texts: Sequence[str]) -> list[HostEntry]:
    """Parse the hosts, and number those with the same name. Raises InvalidInput."""
    entries = [_parse(text) for text in texts]
    if not entries:
        raise InvalidInput(f"`hosts` must name at least one host. {HOW}", field=_FIELD)
    counts = Counter(entry.name for entry in entries)
    seen: Counter[str] = Counter()
    named = []
    for entry in entries:
        seen[entry.name] += 1
        many = counts[entry.name] > 1
        named.append(replace(entry, name=f"{entry.name}-{seen[entry.name]}") if many else entry)
    return named


def _parse(text: str) -> HostEntry:
    where, *options = text.split()
    match = _ENTRY.match(where)
    if match is None or int(match["port"] or 1) not in range(1, 65_536) or where.startswith("-"):
        raise InvalidInput(f"{HOW}, got {text!r:.200}", field=_FIELD)
    host = match["v6"] or match["host"]
    entry = HostEntry(host, host, match["user"] or "", int(match["port"] or 0))
    for option in options:
        key, given, value = option.partition("=")
        if key == "gpus" and given and (_GPUS.match(value) or not value):
            entry = replace(entry, gpus=value.replace("+", ","))
        elif key == "threads" and value.isdecimal() and int(value) > 0:
            entry = replace(entry, threads=int(value))
        elif key == "tasks" and value.isdecimal() and int(value) > 0:
            entry = replace(entry, tasks=int(value))
        else:
            raise InvalidInput(
                "A host must be followed by tasks=N, threads=N, gpus=0+1 (gpus= for none), or by a comma and the next "
                f"host, got {text!r:.200}",
                field=_FIELD,
            )
    return entry
