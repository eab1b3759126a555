"""The kind ``gateway``, with a real Dask Gateway server whose clusters are local processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests

import jupyter_dtf as dtf
from jupyter_dtf.backend.cluster.certificates import temporary_security
from jupyter_dtf.backend.cluster.controller import Controller
from jupyter_dtf.backend.cluster.settings import ControllerSettings
from jupyter_dtf.backend.kinds import gateway_cluster, registry, remote_scheduler
from jupyter_dtf.backend.machine import paths
from jupyter_dtf.backend.machine.visibility_mark import Mark
from jupyter_dtf.backend.viewer import starting
from jupyter_dtf.errors import DtfError
from jupyter_dtf.schema.api import FieldInfo, Problem
from jupyter_dtf.schema.cluster_request import ClusterRequest
from jupyter_dtf.testing.kinds import KindContract
from tests.python import patience
from tests.python.backend.kinds.rest import rests_and_wakes
from tests.python.clusters import wait_until
from tests.python.ports import free_ports

CONFIG = Path(__file__).with_name("gateway_server") / "config.py"


class Server:
    """A gateway server, its proxy, and the clusters that it has started."""

    def __init__(self, directory: Path) -> None:
        self.clusters = directory / "clusters"
        self.clusters.mkdir()
        bare = directory / "bare"  # hides this package from an interpreter that has it installed
        (bare / "jupyter_dtf").mkdir(parents=True)
        (bare / "jupyter_dtf" / "__init__.py").write_text(
            "raise ModuleNotFoundError(\"No module named 'jupyter_dtf'\")"
        )
        self.password = directory / "password"
        self.password.write_text("secret\n")
        self.password.chmod(0o600)
        api, public = (f"127.0.0.1:{port}" for port in free_ports(2))
        self.address = f"http://{public}"
        environment = {
            "GATEWAY_API": api,
            "GATEWAY_PUBLIC": public,
            "GATEWAY_CLUSTERS": str(self.clusters),
            "GATEWAY_BARE": str(bare),
        }
        self.log = directory / "server.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "dask_gateway_server", "--config", str(CONFIG)],
                env={**os.environ, **environment},
                stdout=log,
                stderr=log,
                cwd=directory,
            )
        patience.until(self._answers, self.log.read_text)

    def _answers(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            return requests.get(f"{self.address}/api/health", timeout=5).ok
        except requests.ConnectionError:
            return False

    @property
    def options(self) -> dict[str, Any]:
        return {
            "address": self.address,
            "authentication": "basic",
            "user": "alice",
            "password_file": str(self.password),
        }

    def running(self) -> list[str]:
        """Return the command lines of the clusters' live processes: schedulers, workers, and their children."""
        found = []
        for process in psutil.Process(self.process.pid).children(recursive=True):
            try:
                line = " ".join(process.cmdline())
            except psutil.NoSuchProcess:
                continue
            if "dask-gateway-proxy" not in line and line:
                found.append(line)
        return found

    def close(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


@pytest.fixture(scope="module")
def server(no_process_left_by_module: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("gateway"))
    yield made
    made.close()


@pytest.fixture(autouse=True)
def nothing_left(server: Server, leave_session: None) -> Iterator[None]:
    yield
    patience.until(lambda: not server.running(), lambda: f"the end of {server.running()}")
    patience.until(lambda: not list(server.clusters.iterdir()), "the end of the gateway's clusters")


class TestContract(KindContract):
    kind = "gateway"

    @pytest.fixture(autouse=True)
    def of_the_server(self, server: Server) -> None:
        self.options = server.options


class TestTheForm:
    def test_the_gateways_own_options_are_the_form(self, server: Server) -> None:
        shown = starting.preview(ClusterRequest(kind="gateway", options=server.options))
        assert not shown.problems
        assert shown.fields == [
            FieldInfo("worker_cores", "Cores of a worker", "integer", 1, minimum=1, maximum=4),
            FieldInfo("most_workers", "Workers at most", "integer", 0, minimum=0),
            FieldInfo("profile", "Profile", "choice", "plain", choices=["plain", "bare", "broken"]),
            FieldInfo("more", "Environment", "string", "{}", help="As JSON."),
        ]

    @pytest.mark.parametrize(
        ("option", "value", "message"),
        [
            ("worker_cores", 9, "Cores of a worker must be at most 4, got 9"),
            ("worker_cores", "many", "Cores of a worker must be an integer, got 'many'"),
            ("profile", "huge", "Profile must be one of plain, bare, broken, got 'huge'"),
            ("color", "red", "The options of kind gateway must be among address, "),
        ],
    )
    def test_what_the_gateway_does_not_offer_is_said_at_the_field(
        self, server: Server, option: str, value: object, message: str
    ) -> None:
        (problem,) = starting.preview(
            ClusterRequest(kind="gateway", options={**server.options, option: value})
        ).problems
        assert problem.field == f"options.{option}"
        assert problem.message.startswith(message)

    def test_nobody_there_a_stranger_there_and_a_wrong_password(self, server: Server, tmp_path: Path) -> None:
        def problem(**options: str) -> Problem:
            request = ClusterRequest(kind="gateway", options={**server.options, **options})
            (found,) = starting.preview(request).problems
            return found

        (closed,) = free_ports(1)
        found = problem(address=f"http://127.0.0.1:{closed}")
        assert found.field == "options.address"
        assert found.message == f"No gateway responds at http://127.0.0.1:{closed}: Connection refused"

        found = problem(address="gateway.example.org")
        assert (found.field, found.message) == (
            "options.address",
            "`address` must begin with http:// or https:// and name a host, got 'gateway.example.org'",
        )

        wrong = tmp_path / "wrong"
        wrong.write_text("guess")
        found = problem(password_file=str(wrong))
        assert found.field == "options.password_file"
        wrong.chmod(0o600)
        found = problem(password_file=str(wrong))
        assert found.field == "options.authentication"
        assert found.message.startswith(f"The gateway {server.address} denies access (401 ")

    def test_without_an_address_it_is_that_of_dasks_configuration(self, server: Server) -> None:
        import dask.config

        options = {name: value for name, value in server.options.items() if name != "address"}
        (problem,) = starting.preview(ClusterRequest(kind="gateway", options=options)).problems
        assert problem.field == "options.address"
        with dask.config.set({"gateway.address": server.address}):
            assert not starting.preview(ClusterRequest(kind="gateway", options=options)).problems


class TestACluster:
    def test_what_the_gateway_allows_is_all_there_is(self, server: Server) -> None:
        """The gateway's own options apply, a worker that it refuses is reported, and the granted one is used."""
        with dtf.Cluster(
            backend="gateway", jobs={"worker": 2}, most_workers="1", more='{"OF_THE_GATEWAY": "1"}', **server.options
        ) as cluster:
            info = wait_until(cluster, lambda info: info.hosts and any(host.problem for host in info.coming))
            (host,) = info.coming
            assert host.problem.startswith("Scale request of 2 workers would exceed resource limit of 1 workers")
            assert cluster.run(_environment).result() == ["1", "1"]

    @pytest.mark.extended
    def test_workers_are_given_back_while_nothing_runs_and_come_again_for_a_run(self, server: Server) -> None:
        rests_and_wakes("gateway", server.options, lambda: None)

    def test_a_scheduler_that_has_gone_is_told_in_the_gateways_words(self, server: Server) -> None:
        cluster = dtf.Cluster(backend="gateway", jobs={"worker": 1}, **server.options)
        wait_until(cluster, lambda info: info.hosts)
        (name,) = (path.name for path in server.clusters.iterdir())
        with requests.Session() as asking:
            asking.auth = ("alice", "secret")
            assert asking.delete(f"{server.address}/api/v1/clusters/{name}").ok
        message = wait_until(cluster, lambda info: info.state.value == "failed").message
        assert message.startswith(f"The gateway has ended the cluster {name}: it is STOP")
        cluster.close()

    @pytest.mark.parametrize(
        ("profile", "message"),
        [
            ("bare", "jupyter_dtf is not installed where the scheduler runs: install jupyter-dtf"),
            ("broken", "could not start the cluster .* it is FAILED. The gateway gives no reason"),
        ],
    )
    def test_what_cannot_be_is_told_in_a_sentence(self, server: Server, profile: str, message: str) -> None:
        cluster = dtf.Cluster(backend="gateway", profile=profile, **server.options)
        with pytest.raises(DtfError, match=message):
            cluster.wait_ready()
        cluster.close()

    async def test_a_scheduler_whose_cluster_process_is_no_more_ends_by_itself(self, server: Server) -> None:
        kind = registry.find_kind("gateway")
        security = temporary_security()
        cluster = await gateway_cluster.start(kind, registry.check_options(kind, server.options), security)
        try:
            request = ClusterRequest(name="lost", kind="gateway")
            runs = Mark.of(paths.runs_dir())
            settings = ControllerSettings(request, "lost", runs, time.time(), abandon=cluster.abandon, alone_s=0.1)
            await remote_scheduler.register(cluster, Controller(settings))
            while server.running():
                await asyncio.sleep(0.05)
            assert "it is STOP" in await cluster.last_words()
        finally:
            await cluster.close()


def _environment(_args: Any, ctx: Any) -> str:
    return os.environ["OF_THE_GATEWAY"]
