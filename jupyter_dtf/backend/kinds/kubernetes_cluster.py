"""The Dask cluster of the kind ``kubernetes``: a resource for which Dask's operator creates pods."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Mapping
from typing import Any

from distributed.comm import connect
from kr8s.asyncio.objects import Pod

from ...errors import DtfError, InvalidInput, NotFound, Unavailable
from ...schema.machines import ComingHost
from . import kubernetes_api, kubernetes_pods, kubernetes_spec, pod_health
from .kubernetes_api import APPS, CORE, DASK, KubernetesApi
from .node_settings import node_settings
from .remote_scheduler import ElsewhereCluster

logger = logging.getLogger(__name__)

LOOK_S = 1.0
OPERATOR_S = 20.0
"""How long Dask's operator may take to notice a new cluster."""
HERE = "127.0.0.1"
GONE_S = 6.0
"""How long to wait for a cluster's pods to be deleted."""


class KubernetesCluster(ElsewhereCluster):
    """A cluster in Kubernetes. Workers are named after their Deployments, so that ``kubectl`` finds them."""

    abandon = staticmethod(pod_health.abandon)

    def __init__(self, api: KubernetesApi, name: str, way: Way, address: str, security: Any) -> None:
        super().__init__(address, security)
        self._api = api
        self._name = name
        self._way = way
        self._workers = f"{name}-default"
        self._scaled = asyncio.Event()
        self._told: list[ComingHost] | None = None
        self._working = [asyncio.create_task(self._scale_when_told()), asyncio.create_task(self._watch())]

    def scale(self, n: int) -> None:
        super().scale(n)
        self._scaled.set()
        self._told = self._with_missing((self._told or [])[:n])  # a run waits for them from now on
        self._tell(self._told)

    def watch_hosts(self, tell: Callable[[list[ComingHost]], None]) -> None:
        super().watch_hosts(tell)
        self._told = None

    async def words_of_end(self) -> str:
        with contextlib.suppress(DtfError):
            pods = await self._api.list(CORE, "pods", cluster_name=self._name, component="scheduler")
            states = [await _state(self._api, pod) for pod in pods]
            words = next((state.problem for state in states if state.problem), "")
            if words or not pods:
                return f"The cluster {self._name} has lost its scheduler: {words or 'its pod no longer exists'}"
        return ""

    async def close(self) -> None:
        for task in self._working:
            task.cancel()
        await asyncio.gather(*self._working, return_exceptions=True)
        await super().close()
        await self._way.close()
        await delete(self._api, self._name)

    # -- scaling ---------------------------------------------------------------------------------------------------

    async def _scale_when_told(self) -> None:
        while True:
            await self._scaled.wait()
            self._scaled.clear()
            try:
                await self._scale(len(self.worker_spec))
                continue
            except DtfError as error:
                problem = str(error)
                logger.warning("The cluster %s could not be scaled: %s", self._name, error)
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
                logger.exception("The cluster %s could not be scaled", self._name)
            self._tell([ComingHost(name=self._workers, step="waiting", problem=problem)])
            await asyncio.sleep(LOOK_S)
            self._scaled.set()

    async def _scale(self, count: int) -> None:
        """Set the number of workers. The pods to remove are chosen here, because the operator would have to query the
        scheduler over HTTP, which is disabled.
        """
        there = await self._api.list(APPS, "deployments", workergroup_name=self._workers)
        if len(there) > count:
            pods = await self._api.list(CORE, "pods", workergroup_name=self._workers)
            ready = {kubernetes_pods.worker_name(pod) for pod in pods if kubernetes_pods.is_ready(pod)}
            names = [each["metadata"]["name"] for each in there]
            names.sort(key=lambda name: name not in ready)  # stable: among equals, the first ones are kept
            for name in names[count:]:
                await self._api.delete(APPS, "deployments", name)
        await self._api.patch(DASK, "daskworkergroups", self._workers, {"spec": {"worker": {"replicas": count}}})

    # -- progress of hosts -----------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        while True:
            try:
                hosts = await self._coming()
            except DtfError as error:  # try again later
                logger.warning("The pods of %s could not be listed: %s", self._name, error)
            except Exception:
                logger.exception("The states of the pods of %s could not be read", self._name)
            else:
                if hosts != self._told:
                    self._told = hosts
                    self._tell(hosts)
            await asyncio.sleep(LOOK_S)

    async def _coming(self) -> list[ComingHost]:
        """Return the state of every worker's newest pod, including workers that have joined."""
        pods = await self._api.list(CORE, "pods", workergroup_name=self._workers)
        pods.sort(key=lambda pod: (pod["status"].get("phase") != "Failed", pod["metadata"]["creationTimestamp"]))
        hosts: dict[str, ComingHost] = {}
        for pod in pods:
            if not pod["metadata"].get("deletionTimestamp"):
                state = await _state(self._api, pod)
                name = kubernetes_pods.worker_name(pod)
                before = hosts[name].problem if name in hosts else ""
                hosts[name] = ComingHost(name=name, step=state.step, problem=state.problem or before)
        return self._with_missing(list(hosts.values()))

    def _with_missing(self, hosts: list[ComingHost]) -> list[ComingHost]:
        """Return the hosts, followed by a numbered host for each worker that has no pod yet."""
        missing = range(len(hosts), len(self.worker_spec))
        return [*hosts, *(ComingHost(name=f"pod {number + 1}", step="requested") for number in missing)]


class Way:
    """The route from this machine to the scheduler: the address and, if necessary, an open port forward."""

    def __init__(self, api: KubernetesApi, name: str, options: Mapping[str, Any]) -> None:
        self._api = api
        self._name = name
        self._reach = options["reach"]
        self._forward: Any = None

    async def open(self, pod: Mapping[str, Any], tell: Callable[[str], None]) -> str:
        """Wait until the scheduler has an address, and return it in Dask's format. Raises Unavailable."""
        port = kubernetes_spec.COMM_PORT
        if self._reach == "port-forward":
            return f"tls://{HERE}:{await self._open_port(pod, port)}"
        if self._reach == "service":
            return f"tls://{self._name}-scheduler.{self._api.namespace}:{port}"
        while True:
            service = await self._api.get(CORE, "services", f"{self._name}-scheduler")
            ingress = service.get("status", {}).get("loadBalancer", {}).get("ingress", [])
            if ingress:
                return f"tls://{ingress[0].get('ip') or ingress[0]['hostname']}:{port}"
            tell("The scheduler's load balancer has no address yet")
            await asyncio.sleep(LOOK_S)

    async def _open_port(self, pod: Mapping[str, Any], port: int) -> int:
        """Forward a local port to the pod. If another process takes the free port in the meantime, try another port."""
        for last in (*[False] * 9, True):
            with socket.create_server((HERE, 0)) as free:
                here = free.getsockname()[1]
            self._forward = Pod(dict(pod), api=self._api.api).portforward(port, local_port=here, address=HERE)
            try:
                await self._forward.__aenter__()
                return int(here)
            except OSError as error:
                self._forward = None
                if last:
                    raise Unavailable(f"No port of this machine is free ({error})") from None
        raise AssertionError

    async def close(self) -> None:
        """Close the port forward, without waiting for connections that are still open."""
        if self._forward is not None:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._forward.__aexit__(None, None, None), 1.0)


async def start(
    options: Mapping[str, Any], security: Any, token: str, tell: Callable[[str], None]
) -> KubernetesCluster:
    """Start the scheduler in its pod and connect to it. Raises InvalidInput or Unavailable after cleaning up."""
    api = await kubernetes_api.opened(options)
    name = f"dtf-{token}"
    way = Way(api, name, options)
    try:
        await _ask_for(api, name, options, node_settings(security, token))
        pod = await _scheduler(api, name, tell)
        address = await way.open(pod, tell)
        await _answers(address, security, options)
        return KubernetesCluster(api, name, way, address, security)
    except BaseException:
        await way.close()
        with contextlib.suppress(DtfError):
            await asyncio.shield(delete(api, name))
        raise


async def _ask_for(api: KubernetesApi, name: str, options: Mapping[str, Any], settings: dict[str, Any]) -> None:
    """Create the secret and the cluster. The cluster owns the secret, so that Kubernetes deletes both together."""
    await api.create(CORE, "secrets", kubernetes_spec.secret(name, settings))
    try:
        made = await api.create(DASK, "daskclusters", kubernetes_spec.cluster(name, options))
    except NotFound as error:
        raise Unavailable(
            f"Dask's operator is not installed in this Kubernetes ({error}): see "
            "https://kubernetes.dask.org/en/latest/installing.html"
        ) from None
    owner = {"apiVersion": DASK, "kind": "DaskCluster", "name": name, "uid": made["metadata"]["uid"]}
    await api.patch(CORE, "secrets", name, {"metadata": {"ownerReferences": [owner]}})


async def _scheduler(api: KubernetesApi, name: str, tell: Callable[[str], None]) -> dict[str, Any]:
    """Wait until the scheduler's pod is ready, and return the pod. Raises Unavailable if it cannot become ready."""
    loop = asyncio.get_running_loop()
    asked = loop.time()
    while True:
        pods = await api.list(CORE, "pods", cluster_name=name, component="scheduler")
        if not pods and loop.time() - asked > OPERATOR_S:
            cluster = await api.get(DASK, "daskclusters", name)
            if not cluster.get("status", {}).get("phase"):
                raise Unavailable(
                    f"The cluster {name} in the namespace {api.namespace} has made no progress for {OPERATOR_S:.0f} s: "
                    "Dask's operator is not running, or does not watch this namespace"
                )
        for pod in pods:
            if kubernetes_pods.is_ready(pod):
                return pod
            state = await _state(api, pod)
            if state.is_hopeless:
                raise Unavailable(f"The scheduler's pod cannot start: {state.problem}")
            tell(f"The scheduler's pod is {state.step}{state.problem and f': {state.problem}'}")
        await asyncio.sleep(LOOK_S)


async def _answers(address: str, security: Any, options: Mapping[str, Any]) -> None:
    """Raise InvalidInput if the scheduler cannot be reached."""
    try:
        comm = await connect(address, timeout=10, **security.get_connection_args("client"))
    except OSError as error:
        raise InvalidInput(
            f"The scheduler's pod is ready, but cannot be reached by {options['reach']} at {address}: {error}",
            field="options.reach",
        ) from None
    await comm.close()


async def _state(api: KubernetesApi, pod: Mapping[str, Any]) -> kubernetes_pods.PodState:
    log = ""
    if kubernetes_pods.needs_log(pod):
        status = pod["status"].get("containerStatuses", [{}])[0]
        log = await api.log_of(pod["metadata"]["name"], before="terminated" not in status.get("state", {}))
    return kubernetes_pods.read(pod, log)


async def delete(api: KubernetesApi, name: str) -> None:
    """Delete all resources of a cluster and wait until its pods are gone, for at most ``GONE_S``."""
    await api.delete(DASK, "daskclusters", name)
    await api.delete(CORE, "secrets", name)  # the secret has no owner if the cluster could not be created
    loop = asyncio.get_running_loop()
    until = loop.time() + GONE_S
    while await api.list(CORE, "pods", cluster_name=name) and loop.time() < until:
        await asyncio.sleep(LOOK_S / 4)
