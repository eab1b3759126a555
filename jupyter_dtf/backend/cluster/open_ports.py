"""Creates warnings about unprotected ports of TensorFlow servers on a cluster's machines. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from ...schema.machines import HostInfo


def open_ports(hosts: Iterable[HostInfo]) -> list[str]:
    """Return a warning for each reason why ports are open to other users; each warning names the machines."""
    machines: dict[str, set[str]] = {}
    for host in hosts:
        if host.unguarded:
            machines.setdefault(host.unguarded, set()).add(host.machine or host.name)
    return [
        f"On {', '.join(sorted(names))}, others can use TensorFlow's servers: {why}. In-graph training, pipelines over "
        "several tasks, `servers()`, and programs that start a server open ports there that anyone can reach. "
        "All-reduce and parameter servers on one machine open none. Do not share the machine with other users, and "
        "protect its ports with a firewall"
        for why, names in sorted(machines.items())
    ]
