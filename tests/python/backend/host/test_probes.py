"""Probes between hosts, tested with real connections: which hosts reach each other."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from jupyter_dtf.backend.cluster import reachability
from jupyter_dtf.backend.cluster.reachability import Reach
from jupyter_dtf.backend.host import probes
from jupyter_dtf.backend.host.probes import Probe, dial_all, measure
from jupyter_dtf.schema.machines import HostInfo


def run(work: Callable[[str], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        return await work(secrets.token_hex(32))

    return asyncio.run(main())


def test_who_is_reached_and_why_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "DIAL_S", 0.2)

    async def dial(secret: str) -> dict[str, str]:
        other = Probe("127.0.0.1", secrets.token_hex(32))
        probe = Probe("127.0.0.1", secret)
        silent = socket.create_server(("127.0.0.1", 0))
        places = {
            "well": probe.endpoint,
            "other": other.endpoint,
            "silent": f"127.0.0.1:{silent.getsockname()[1]}",
            "refused": "127.0.0.1:1",
        }
        try:
            return await dial_all(places, secret)
        finally:
            for each in (probe, other, silent):
                each.close()

    assert run(dial) == {
        "other": "something else answers there (from 127.0.0.1 on lo)",
        "silent": "no answer within 0.2 s (from 127.0.0.1 on lo)",
        "refused": "Connection refused (from 127.0.0.1 on lo)",
    }


def test_a_connection_is_measured_and_the_probe_serves_nobody_without_the_secret() -> None:
    async def measured(secret: str) -> tuple[float, float]:
        probe = Probe("127.0.0.1", secret)
        with pytest.raises(ConnectionError):
            await asyncio.to_thread(measure, probe.endpoint, secrets.token_hex(32))
        found = await asyncio.to_thread(measure, probe.endpoint, secret)
        probe.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.to_thread(measure, probe.endpoint, secret)
        return found

    speed, latency = run(measured)
    assert speed > 0 and latency > 0


class Hosts:
    """Hosts of ``count`` machines, at loopback addresses. The third reports an endpoint at which it does not listen."""

    def __init__(self, count: int) -> None:
        names = [f"tls://127.0.0.{number}:1" for number in range(1, count + 1)]
        self.infos = {name: HostInfo(name=f"host-{name[14]}", address=name, machine=name) for name in names}
        self.probes: dict[str, Probe] = {}
        self.asked: list[str] = []

    async def ask(self, address: str, op: str, **message: Any) -> Any:
        self.asked.append(op)
        if op == "dtf_dial":
            return await dial_all(**message)
        if op == "dtf_measure":
            return await asyncio.to_thread(measure, **message)
        if (probe := self.probes.pop(address, None)) is not None:
            probe.close()
        if not message["secret"]:
            return ""
        self.probes[address] = Probe(address.partition("://")[2].rpartition(":")[0], message["secret"])
        return "127.0.0.3:1" if address == "tls://127.0.0.3:1" else self.probes[address].endpoint


def test_pairs_that_do_not_reach_each_other_are_named_and_the_others_tried_once() -> None:
    async def look(_secret: str) -> None:
        hosts = Hosts(3)
        tried = Reach(hosts.ask, hosts.infos)
        one, two, three = hosts.infos
        found = await tried.look(list(hosts.infos))
        assert [(source, target) for source, target, _ in found] == [(one, three), (two, three)]
        hosts.asked.clear()
        assert await tried.look([one, two]) == []
        assert hosts.asked == []
        tried.gone(two)
        await tried.look([one, two])
        assert hosts.asked.count("dtf_dial") == 2
        assert not hosts.probes

        speeds = await tried.measure([one, two])
        assert [(pair.source, pair.target) for pair in speeds] == [("host-1", "host-2"), ("host-2", "host-1")]

    run(look)


def test_hosts_of_one_machine_need_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reachability, "FRESH_S", 0.0)

    async def look(_secret: str) -> None:
        hosts = Hosts(2)
        for info in hosts.infos.values():
            info.machine = "one"
        assert await Reach(hosts.ask, hosts.infos).look(list(hosts.infos)) == []
        assert hosts.asked == []

    run(look)
