"""Which ports the processes of a cluster listen on, and that none of them speaks HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest
from distributed import Scheduler, Worker

import jupyter_dtf as dtf
from jupyter_dtf.backend.kinds.dask_http import Dashboard, silence
from jupyter_dtf.backend.viewer import connections
from jupyter_dtf.client import dashboard
from jupyter_dtf.errors import Unavailable

pytestmark = pytest.mark.module_directories
NOBODY = 65534


def tree(cluster: dtf.Cluster) -> list[psutil.Process]:
    process = psutil.Process(connections.read(cluster.name).pid)
    return [process, *process.children(recursive=True)]


def listening(cluster: dtf.Cluster) -> dict[tuple[str, int], str]:
    """Return the address and port of each TCP socket on which a cluster's process listens, and its command line."""
    return {
        (connection.laddr.ip, connection.laddr.port): " ".join(process.cmdline())
        for process in tree(cluster)
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }


def answer_to_http(host: str, port: int) -> bytes:
    """Return the response to a plain HTTP request, which is empty if the server speaks TLS."""
    with socket.create_connection((host, port), timeout=10) as connection:
        connection.sendall(b"GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with contextlib.suppress(OSError):  # the server has already closed the connection
            connection.shutdown(socket.SHUT_WR)
        try:
            return connection.recv(100)
        except ConnectionResetError:
            return b""


@pytest.fixture
def placed(cluster: dtf.Cluster) -> dtf.Cluster:
    """The cluster, after its Dask worker has joined."""
    cluster.run(lambda _args, _ctx: None)
    return cluster


def test_only_dasks_own_ports_are_open_and_they_speak_tls(placed: dtf.Cluster) -> None:
    scheduler = connections.read(placed.name).address
    workers = [host.address for host in placed.info.hosts]
    found = listening(placed)
    assert {host for host, _ in found} == {"127.0.0.1"}, found
    named = {f"tls://{host}:{port}" for host, port in found}
    assert {scheduler, *workers} <= named
    assert len(found) == 1 + 2 * len(workers), found  # each worker's nanny has one too
    for host, port in found:
        assert not answer_to_http(host, port).startswith(b"HTTP"), found[host, port]


def test_the_dashboard_is_on_a_socket_of_the_users_own(placed: dtf.Cluster) -> None:
    before = listening(placed)
    assert placed._session.call(lambda fleet: fleet.dashboard(placed.name, start=False)) == ""
    path = Path(placed._session.call(lambda fleet: fleet.dashboard(placed.name)))
    assert placed._session.call(lambda fleet: fleet.dashboard(placed.name, start=False)) == str(path)
    assert listening(placed) == before
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.sendall(b"GET /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.stat().st_uid == os.getuid()


@pytest.mark.skipif(os.geteuid() != 0, reason="another user can be had by root alone")
def test_another_user_reaches_neither_the_socket_nor_anything_of_http(placed: dtf.Cluster) -> None:
    path = placed._session.call(lambda fleet: fleet.dashboard(placed.name))
    script = (
        "import json, socket, sys\n"
        "for port in json.loads(sys.argv[2]):\n"
        "    with socket.create_connection(('127.0.0.1', port), timeout=10) as tried:\n"
        "        try:\n"
        "            tried.sendall(b'GET / HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n')\n"
        "            tried.shutdown(socket.SHUT_WR)\n"
        "            assert not tried.recv(100).startswith(b'HTTP'), port\n"
        "        except OSError:\n"
        "            pass\n"  # the server has closed the connection
        "with socket.socket(socket.AF_UNIX) as tried:\n"
        "    try:\n"
        "        tried.connect(sys.argv[1])\n"
        "    except PermissionError:\n"
        "        print('refused')\n"
    )
    ports = [port for _, port in listening(placed)]
    done = subprocess.run(
        ["/usr/bin/env", "python3", "-I", "-c", script, path, str(ports)],
        capture_output=True, text=True, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", check=False,
        env={"PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("refused\n", "")


def test_a_kind_that_starts_dasks_own_servers_has_their_ports_closed() -> None:
    """``silence`` closes the ports of any scheduler or worker, whatever the kind of cluster."""

    async def ports() -> tuple[int, int]:
        async with (
            Scheduler(port=0, host="127.0.0.1", dashboard_address="127.0.0.1:0") as scheduler,
            Worker(scheduler.address, nthreads=1) as worker,
        ):
            before = [server.services["dashboard"].port for server in (scheduler, worker)]
            silence(scheduler)
            silence(worker)
            opened = 0
            for port in before:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except ConnectionRefusedError:
                    continue
                writer.close()
                opened += 1
            return len(before), opened

    assert asyncio.run(ports()) == (2, 0)


def test_a_dashboard_that_was_turned_off_is_gone() -> None:
    async def on_and_off() -> None:
        async with Scheduler(port=0, host="127.0.0.1", dashboard_address="127.0.0.1:0") as scheduler:
            board = Dashboard(scheduler, "0")
            first, second = await asyncio.gather(board.start(), board.start())
            assert first == second == board.socket
            _, writer = await asyncio.open_unix_connection(first)
            writer.close()
            await board.stop()
            assert not os.path.exists(first)  # noqa: ASYNC240
            assert board.socket == ""
            await board.stop()

    asyncio.run(on_and_off())


class TestWhereABrowserFindsIt:
    @pytest.fixture
    def servers(self, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
        running: list[dict[str, Any]] = []
        for name in ("JUPYTERHUB_SERVICE_PREFIX", "JUPYTERHUB_PUBLIC_URL", "JUPYTERHUB_HOST", "JPY_PARENT_PID"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(dashboard, "_servers", lambda: running)
        return running

    def test_below_the_server_of_this_kernel(self, servers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        servers += [{"pid": 1, "url": "http://localhost:8888/"}, {"pid": 2, "url": "https://localhost:8889/lab/base/"}]
        page = "jupyter-dtf/api/clusters/a/dask/status"
        assert dashboard.dashboard_url("a") == f"http://localhost:8888/{page}"
        monkeypatch.setenv("JPY_PARENT_PID", "2")
        assert dashboard.dashboard_url("a") == f"https://localhost:8889/lab/base/{page}"
        monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", "/user/alice/")
        assert dashboard.dashboard_url("a") == f"/user/alice/{page}"

    def test_without_a_server_it_is_said_how(self, servers: Any) -> None:
        with pytest.raises(Unavailable, match="Start one .* open /jupyter-dtf/api/clusters/a/dask/status on it"):
            dashboard.dashboard_url("a")
