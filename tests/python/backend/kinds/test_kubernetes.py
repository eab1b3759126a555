"""The kind ``kubernetes``, with a stand-in for the Kubernetes API whose pods are local processes."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import jupyter_dtf as dtf
from jupyter_dtf.backend.cluster.certificates import temporary_security
from jupyter_dtf.backend.cluster.controller import Controller
from jupyter_dtf.backend.cluster.settings import ControllerSettings
from jupyter_dtf.backend.kinds import kubernetes_cluster, kubernetes_pods, registry, remote_scheduler
from jupyter_dtf.backend.machine import paths
from jupyter_dtf.backend.machine.visibility_mark import Mark
from jupyter_dtf.backend.viewer import starting
from jupyter_dtf.errors import DtfError
from jupyter_dtf.schema.cluster_request import ClusterRequest
from jupyter_dtf.schema.machines import ComingHost
from jupyter_dtf.testing.kinds import KindContract
from tests.python import patience
from tests.python.backend.kinds.kubernetes_standin.api import Standin
from tests.python.backend.kinds.kubernetes_standin.kubelet import BARE, MISSING, PULLED
from tests.python.backend.kinds.rest import rests_and_wakes
from tests.python.clusters import wait_until

SMALL: dict[str, Any] = {"image": PULLED, "cores": 1, "memory_bytes": 1 << 30}


@pytest.fixture
def standin(tmp_path: Path, leave_session: None) -> Iterator[Standin]:
    made = Standin(tmp_path)
    try:
        yield made
        patience.until(lambda: not made.left, lambda: f"the end of {made.left}")
        assert not made.failures
    finally:
        made.close()


@pytest.fixture
def small(standin: Standin) -> dict[str, Any]:
    return {**SMALL, "kubeconfig": str(standin.kubeconfig())}


class TestContract(KindContract):
    kind = "kubernetes"

    @pytest.fixture(autouse=True)
    def of_the_standin(self, small: dict[str, Any]) -> None:
        self.options = small


class TestACluster:
    @pytest.mark.extended
    def test_pods_that_go_are_told_in_kubernetes_words(self, standin: Standin, small: dict[str, Any]) -> None:
        """An evicted worker is reported and replaced; an evicted scheduler makes the cluster fail."""
        cluster = dtf.Cluster(backend="kubernetes", jobs={"worker": 1}, **small)
        (host,) = wait_until(cluster, lambda info: info.hosts).hosts
        standin.evict("worker")
        info = wait_until(cluster, lambda info: any(host.problem for host in info.coming))
        assert info.coming[0].name == host.name
        assert info.coming[0].problem == "its pod was evicted: The node was low on resource: memory."
        wait_until(cluster, lambda info: info.hosts and not info.coming)

        standin.evict("scheduler", again=False)
        message = wait_until(cluster, lambda info: info.state.value == "failed").message
        assert message.endswith("has lost its scheduler: its pod was evicted: The node was low on resource: memory.")
        cluster.close()

    @pytest.mark.extended
    def test_pods_are_given_back_while_nothing_runs_and_come_again_for_a_run(
        self, standin: Standin, small: dict[str, Any]
    ) -> None:
        rests_and_wakes("kubernetes", small, lambda: None)

    async def test_a_scheduler_whose_cluster_process_is_no_more_has_itself_deleted(
        self, standin: Standin, small: dict[str, Any]
    ) -> None:
        kind = registry.find_kind("kubernetes")
        told: list[str] = []
        security = temporary_security()
        options = registry.check_options(kind, small)
        cluster = await kubernetes_cluster.start(options, security, "lost", told.append)
        try:
            assert told[-1] == "The scheduler's pod is starting Python"
            (pod,) = standin.kubelets.values()
            assert '"idle_since": 0.0' in standin.do(pod.ask(8787, "/api/v1/check_idle"))
            assert standin.do(pod.ask(8787, "/info/main/workers.html")).startswith("HTTP/1.0 404")
            assert not standin.do(pod.ask(8786, "/")), "Dask's port is for who has the certificate"
            request, runs = ClusterRequest(name="lost", kind="kubernetes"), Mark.of(paths.runs_dir())
            settings = ControllerSettings(request, "lost", runs, time.time(), abandon=cluster.abandon, alone_s=0.1)
            await remote_scheduler.register(cluster, Controller(settings))
            while standin.left:
                await asyncio.sleep(0.05)
            assert "its pod no longer exists" in await cluster.last_words()
        finally:
            await cluster.close()

    @pytest.mark.parametrize("reach", ["load-balancer", "service"])
    async def test_a_scheduler_that_is_reached_without_the_api(
        self, reach: str, standin: Standin, small: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        look_up, namespace = socket.getaddrinfo, "science"

        def of_the_cluster(host: Any, *more: Any, **options: Any) -> Any:  # knows the names that a pod's resolver knows
            name, _, zone = str(host).partition(".")
            return look_up(standin.address_of(namespace, name) if zone == namespace else host, *more, **options)

        monkeypatch.setattr(socket, "getaddrinfo", of_the_cluster)
        options = registry.check_options(registry.find_kind("kubernetes"), {**small, "reach": reach})
        told: list[str] = []
        cluster = await kubernetes_cluster.start(options, temporary_security(), "reached", told.append)
        try:
            name = "dtf-reached-scheduler"
            here = standin.address_of(namespace, name) if reach == "load-balancer" else f"{name}.{namespace}"
            assert cluster.scheduler_address == f"tls://{here}:8786"
            assert ("The scheduler's load balancer has no address yet" in told) == (reach == "load-balancer")
            assert standin.forwards == 0
        finally:
            await cluster.close()


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"namespace": "nope"}, "`namespace` must be an existing one, got 'nope': namespaces \"nope\" not found"),
            ({"image": MISSING}, "ImagePullBackOff: Back-off pulling image"),
            (
                {"image": BARE},
                "pod cannot start: its container has ended (Error, status 1): .*No module",
            ),
        ],
    )
    def test_a_start_that_comes_to_nothing(self, small: dict[str, Any], options: dict[str, Any], message: str) -> None:
        self.refuses({**small, **options}, message)

    def test_a_user_who_may_not(self, standin: Standin, small: dict[str, Any]) -> None:
        small["kubeconfig"] = str(standin.kubeconfig("reader"))
        self.refuses(small, 'does not allow the request: secrets is forbidden: User "reader" cannot create resource')

    def test_a_user_who_is_not_known(self, standin: Standin, small: dict[str, Any]) -> None:
        small["kubeconfig"] = str(standin.kubeconfig("nobody"))
        self.refuses(small, "Kubernetes does not accept the credentials: Unauthorized")

    def test_nobody_there(self, standin: Standin, small: dict[str, Any]) -> None:
        small["kubeconfig"] = str(standin.kubeconfig(server="http://127.0.0.1:9"))
        self.refuses(small, "Kubernetes cannot be reached: All connection attempts failed")

    def test_no_kubeconfig(self, small: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
        self.refuses({**small, "kubeconfig": ""}, "Kubernetes is not configured: `kubeconfig`, KUBECONFIG or")

    def test_no_operator(self, standin: Standin, small: dict[str, Any]) -> None:
        standin.has_operator = False
        self.refuses(small, "Dask's operator is not installed in this Kubernetes")

    def test_a_node_that_is_too_small_is_told_while_it_starts(self, standin: Standin, small: dict[str, Any]) -> None:
        """When the cluster is scaled down, pods that do not run are removed first, without asking the operator."""
        with dtf.Cluster(backend="kubernetes", jobs={"worker": 2}, **{**small, "cores": 100}) as cluster:
            info = wait_until(cluster, lambda info: sum(bool(host.problem) for host in info.coming) == 2)
            assert info.coming[0].step == "waiting for a node"
            assert info.coming[0].problem == "Unschedulable: 0/3 nodes are available: 3 Insufficient cpu."
            cluster.scale({"worker": 1})
            wait_until(cluster, lambda info: len(info.coming) == 1)

    def refuses(self, options: dict[str, Any], message: str) -> None:
        cluster = dtf.Cluster(backend="kubernetes", **options)
        pattern = message.replace("(", r"\(").replace(")", r"\)")
        with pytest.raises(DtfError, match=pattern):
            cluster.wait_ready()
        cluster.close()


class TestTheResource:
    def test_a_preview_shows_what_will_be_sent(self, tmp_path: Path) -> None:
        template = tmp_path / "pod.yaml"
        template.write_text(
            yaml.safe_dump(
                {
                    "metadata": {"labels": {"team": "vision"}},
                    "spec": {
                        "tolerations": [{"key": "gpu", "operator": "Exists"}],
                        "containers": [{"name": "worker", "env": [{"name": "A", "value": "1"}], "image": "ignored"}],
                        "volumes": [{"name": "data", "emptyDir": {}}],
                    },
                }
            )
        )
        options = {
            "image": PULLED, "cores": 2.5, "memory_bytes": 2 << 30, "gpus": 2, "service_account": "trainer",
            "pod_template": str(template),
        }  # fmt: skip
        shown = starting.preview(ClusterRequest(kind="kubernetes", options=options))
        assert not shown.problems
        sent = yaml.safe_load(shown.script)
        assert (sent["kind"], sent["metadata"]["labels"]["team"]) == ("DaskCluster", "vision")
        pod = sent["spec"]["worker"]["spec"]
        assert pod["serviceAccountName"] == "trainer"
        assert pod["tolerations"] == [{"key": "gpu", "operator": "Exists"}]
        assert [volume["name"] for volume in pod["volumes"]] == ["data", "jupyter-dtf", "shared-memory"]
        (container,) = pod["containers"]
        assert container["image"] == PULLED
        assert {"name": "A", "value": "1"} in container["env"]
        limits = {"cpu": "2500m", "memory": str(2 << 30), "nvidia.com/gpu": "2"}
        assert container["resources"] == {"requests": limits, "limits": limits}
        assert "--nthreads 2" in " ".join(container["command"])
        scheduler = sent["spec"]["scheduler"]["spec"]["containers"][0]
        assert scheduler["resources"]["limits"] == {"cpu": "500m", "memory": "1Gi"}
        assert "PRIVATE KEY" not in shown.script

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"image": ""}, "`image` must name an image with jupyter-dtf in it, got ''"),
            ({"namespace": "My_Space"}, "`namespace` must be lower-case letters, digits and hyphens, got 'My_Space'"),
            ({"pod_template": "/no/such"}, "`pod_template` must be an existing file, got '/no/such'"),
            ({"pod_template": "LIST"}, "`pod_template` must have a pod's `spec`, got ['a']"),
            ({"pod_template": "BROKEN"}, "`pod_template` cannot be read: "),
            ({"kubeconfig": "/no/such"}, "`kubeconfig` must be an existing file, got '/no/such'"),
            ({"python": "python -c"}, "`python` must be one word"),
        ],
    )
    def test_what_cannot_be_is_said_at_the_field(self, options: dict[str, str], message: str, tmp_path: Path) -> None:
        files = {"LIST": "[a]", "BROKEN": "a: [b"}
        given = {"image": PULLED}
        for name, value in options.items():
            given[name] = value
            if value in files:
                (tmp_path / value).write_text(files[value])
                given[name] = str(tmp_path / value)
        (problem,) = starting.preview(ClusterRequest(kind="kubernetes", options=given)).problems
        assert problem.field == f"options.{next(iter(options))}"
        assert problem.message.startswith(message)


@pytest.mark.parametrize(
    ("status", "log", "step", "problem", "is_hopeless"),
    [
        ({"phase": "Pending"}, "", "waiting for a node", "", False),
        (
            {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]},
            "", "pulling the image", "", False,
        ),
        (
            {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "InvalidImageName",
             "message": "couldn't parse image"}}}]},
            "", "waiting", "InvalidImageName: couldn't parse image", True,
        ),
        ({"phase": "Running", "containerStatuses": [{"state": {"running": {}}}]}, "", "starting Python", "", False),
        (
            {"phase": "Running", "containerStatuses": [{"state": {"running": {}}, "lastState": {"terminated":
             {"reason": "OOMKilled", "exitCode": 137}}}]},
            "", "starting Python", "its container has ended (OOMKilled, status 137)", False,
        ),
        (
            {"phase": "Running", "containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}},
             "lastState": {"terminated": {"reason": "Error", "exitCode": 1}}}]},
            "a\nb\nc\nd\n", "waiting", "its container has ended (Error, status 1): b / c / d", True,
        ),
        (
            {"phase": "Failed", "reason": "DeadlineExceeded", "message": "Pod was active longer than allowed"},
            "", "ended", "its pod has ended (DeadlineExceeded): Pod was active longer than allowed", False,
        ),
    ],
)  # fmt: skip
def test_what_kubernetes_says_of_a_pod(
    status: dict[str, Any], log: str, step: str, problem: str, is_hopeless: bool
) -> None:
    assert kubernetes_pods.read({"status": status}, log) == (step, problem, is_hopeless)


def test_its_kind_is_found() -> None:
    assert registry.find_kind("kubernetes").title == "Kubernetes"


async def test_a_cluster_is_scaled_again_after_an_unforeseen_error(monkeypatch: pytest.MonkeyPatch) -> None:
    scaled = asyncio.Event()
    errors = [KeyError("metadata")]

    class Api:
        async def list(self, *what: Any, **more: Any) -> list[Any]:
            return []

        async def delete(self, *what: Any) -> None:
            pass

        async def patch(self, *what: Any) -> None:
            if errors:
                raise errors.pop()
            scaled.set()

    class Way:
        async def close(self) -> None:
            pass

    monkeypatch.setattr(kubernetes_cluster, "LOOK_S", 0.0)
    cluster = kubernetes_cluster.KubernetesCluster(Api(), "k", Way(), "tls://127.0.0.1:1", temporary_security())  # type: ignore[arg-type]
    told: list[list[ComingHost]] = []
    cluster.watch_hosts(told.append)
    cluster.scale(1)
    try:
        await asyncio.wait_for(scaled.wait(), patience.left_s())
        assert [ComingHost("k-default", "waiting", "KeyError: 'metadata'")] in told
    finally:
        await cluster.close()
