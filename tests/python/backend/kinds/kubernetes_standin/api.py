"""A substitute for Kubernetes with Dask's operator. Its HTTP API runs in a thread, and its pods are processes
(``kubelet``).

The resources that a ``DaskCluster`` creates are built by the real operator's own functions.
"""

from __future__ import annotations

import asyncio
import json
import threading
import uuid
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import yaml
from aiohttp import WSMsgType, web
from dask_kubernetes.operator.controller import controller as operator

from .kubelet import LOOK_S, Kubelet

_T = TypeVar("_T")
Resource = dict[str, Any]
OWNED = ("deployments", "services", "daskworkergroups")


class Refusal(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Standin:
    """One Kubernetes cluster. The user ``good`` may do anything, the user ``reader`` may only read."""

    namespaces = ("default", "science")

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.has_operator = self.runs_operator = True
        self.kept: dict[tuple[str, str], dict[str, Resource]] = {}
        self.kubelets: dict[str, Kubelet] = {}
        self.failures: list[str] = []
        """What the operator could not do."""
        self.forwards = 0
        """The number of ports that the API has forwarded."""
        self._background: set[asyncio.Task[Any]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.address = self.do(self._listen())

    def do(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def kubeconfig(self, user: str = "good", server: str = "") -> Path:
        path = self.directory / f"kubeconfig-{user}-{uuid.uuid4().hex}"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": user, "namespace": "science"}}],
            "clusters": [{"name": "here", "cluster": {"server": server or self.address}}],
            "users": [{"name": user, "user": {"token": user}}],
        }
        path.write_text(yaml.safe_dump(config))
        return path

    def close(self) -> None:
        self.do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self) -> str:
        app = web.Application()
        app.router.add_get("/version/", self._version)
        for base in ("/api/{version}", "/apis/{group}/{version}"):
            for tail in ("", "/{name}", "/{name}/{part}"):
                app.router.add_route("*", f"{base}/namespaces/{{namespace}}/{{kind}}{tail}", self._serve)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def _close(self) -> None:
        await asyncio.gather(*(kubelet.end() for kubelet in self.kubelets.values()))
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self._runner.cleanup()

    # -- the API ---------------------------------------------------------------------------------------------------

    async def _version(self, request: web.Request) -> web.Response:
        return web.json_response({"gitVersion": "v1.33.0"})

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        part = request.match_info
        try:
            self._check(request)
            kept = self.kept.setdefault((part["kind"], part["namespace"]), {})
            name = part.get("name", "")
            if name and request.method != "POST" and name not in kept:
                raise Refusal(404, f'{part["kind"]} "{name}" not found')
            match request.method, part.get("part"):
                case "GET", "log":
                    kubelet = self.kubelets[name]
                    return web.Response(text=kubelet.log_before if "previous" in request.query else kubelet.log)
                case "GET", "portforward":
                    return await self._forward(request, self.kubelets[name])
                case "GET", None:
                    found = kept[name] if name else {"items": _chosen(kept, request.query.get("labelSelector", ""))}
                    answer = web.json_response(found)
                    if name and part["kind"] == "services":
                        self._balance(part["namespace"], found)
                    return answer
                case "POST", None:
                    resource = await request.json()
                    self._create(part["kind"], part["namespace"], resource)
                    return web.json_response(resource, status=201)
                case "PATCH", None:
                    _patch(kept[name], await request.json())
                    if part["kind"] == "daskworkergroups":
                        self._scale(part["namespace"], kept[name])
                    return web.json_response(kept[name])
                case "DELETE", None:
                    self._delete(part["kind"], part["namespace"], name)
                    return web.json_response({"kind": "Status", "status": "Success"})
            raise Refusal(405, "no such thing")
        except Refusal as refusal:
            failure = {"kind": "Status", "status": "Failure", "message": str(refusal), "code": refusal.status}
            return web.json_response(failure, status=refusal.status)

    def _check(self, request: web.Request) -> None:
        user = request.headers.get("Authorization", "").removeprefix("Bearer ")
        part = request.match_info
        kind, namespace = part["kind"], part["namespace"]
        if user not in ("good", "reader"):
            raise Refusal(401, "Unauthorized")
        if user == "reader" and request.method != "GET":
            raise Refusal(
                403,
                f'{kind} is forbidden: User "reader" cannot create resource "{kind}" in API group '
                f'"{part.get("group", "")}" in the namespace "{namespace}"',
            )
        if namespace not in self.namespaces and request.method == "POST":
            raise Refusal(404, f'namespaces "{namespace}" not found')
        if kind.startswith("dask") and not self.has_operator:
            raise Refusal(404, "the server could not find the requested resource")

    async def _forward(self, request: web.Request, kubelet: Kubelet) -> web.WebSocketResponse:
        """Forward a port as Kubernetes does: each channel begins with its port, and channel 0 carries the data."""
        self.forwards += 1
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        port = int(request.query["ports"])
        reader, writer = await asyncio.open_connection(kubelet.address, port)
        for channel in (b"\0", b"\1"):
            await socket.send_bytes(channel + port.to_bytes(2, "little"))

        async def out() -> None:
            while data := await reader.read(1 << 15):
                await socket.send_bytes(b"\0" + data)
            await socket.close()

        pump = self._begin(out())
        try:
            async for message in socket:
                if message.type is WSMsgType.BINARY:
                    writer.write(message.data[1:])
                    await writer.drain()
        finally:
            pump.cancel()
            writer.close()
        return socket

    # -- resources ---------------------------------------------------------------------------------------------------

    def _create(self, kind: str, namespace: str, resource: Resource) -> None:
        metadata = resource["metadata"]
        metadata |= {"namespace": namespace, "uid": uuid.uuid4().hex, "creationTimestamp": f"{len(self.kubelets):09}"}
        self.kept.setdefault((kind, namespace), {})[metadata["name"]] = resource
        if kind == "daskclusters" and self.runs_operator:
            self._operate(namespace, resource)
        if kind == "deployments":
            self._deploy(namespace, resource)

    def _delete(self, kind: str, namespace: str, name: str) -> None:
        resource = self.kept[kind, namespace].pop(name)
        if kind == "daskclusters":
            label = {"dask.org/cluster-name": name}
            for owned in OWNED:
                for each in _chosen(self.kept.get((owned, namespace), {}), _selector(label)):
                    self._delete(owned, namespace, each["metadata"]["name"])
            for secret in list(self.kept.get(("secrets", namespace), {}).values()):
                if any(owner["name"] == name for owner in secret["metadata"].get("ownerReferences", [])):
                    self._delete("secrets", namespace, secret["metadata"]["name"])
        if kind == "deployments":
            labels = resource["spec"]["selector"]["matchLabels"]
            for pod in _chosen(self.kept[("pods", namespace)], _selector(labels)):
                if pod["metadata"]["name"].startswith(name):
                    self._begin(self._end_pod(namespace, pod["metadata"]["name"]))

    def _operate(self, namespace: str, cluster: Resource) -> None:
        name, spec = cluster["metadata"]["name"], cluster["spec"]
        deployment = operator.build_scheduler_deployment_spec(name, spec["scheduler"]["spec"], {}, {})
        service = operator.build_scheduler_service_spec(name, spec["scheduler"]["service"], {}, {})
        group = operator.build_default_worker_group_spec(name, spec["worker"], {}, {})
        self._create("services", namespace, service)
        self._create("deployments", namespace, deployment)
        self._create("daskworkergroups", namespace, group)
        cluster["status"] = {"phase": "Running"}
        if spec.get("idleTimeout"):
            self._begin(self._look_whether_idle(namespace, name))

    def _balance(self, namespace: str, service: Resource) -> None:
        """Give a load balancer its address. As in Kubernetes, it has none at first. It gets one at the next read."""
        if service["spec"]["type"] == "LoadBalancer":
            address = self.address_of(namespace, service["metadata"]["name"])
            service["status"] = {"loadBalancer": {"ingress": [{"ip": address}]}}

    def address_of(self, namespace: str, service: str) -> str:
        """Return the address of the newest pod behind a service; empty if there is no such service."""
        if not (found := self.kept[("services", namespace)].get(service)):
            return ""
        pod = _chosen(self.kept["pods", namespace], _selector(found["spec"]["selector"]))[-1]
        return self.kubelets[pod["metadata"]["name"]].address

    def _scale(self, namespace: str, group: Resource) -> None:
        name, spec = group["metadata"]["name"], group["spec"]
        there = _chosen(self.kept[("deployments", namespace)], f"dask.org/workergroup-name={name}")
        wanted = spec["worker"]["replicas"]
        if len(there) > wanted:
            self.failures.append("the scheduler does not tell which workers may go")
        for _ in range(wanted - len(there)):
            deployment = operator.build_worker_deployment_spec(
                name, namespace, spec["cluster"], uuid.uuid4().hex[:10], spec["worker"]["spec"], {}, {}
            )
            self._create("deployments", namespace, deployment)

    async def _look_whether_idle(self, namespace: str, name: str) -> None:
        """Delete a cluster that is idle, like the operator's timer, but without its delay."""
        while name in self.kept[("daskclusters", namespace)]:
            for pod in _chosen(self.kept.get(("pods", namespace), {}), f"dask.org/cluster-name={name}"):
                if pod["metadata"]["labels"]["dask.org/component"] == "scheduler":
                    answer = await self.kubelets[pod["metadata"]["name"]].ask(8787, "/api/v1/check_idle")
                    if answer and float(json.loads(answer.rpartition("\r\n\r\n")[2])["idle_since"]):
                        self._delete("daskclusters", namespace, name)
                        return
            await asyncio.sleep(LOOK_S)

    # -- pods --------------------------------------------------------------------------------------------------------

    def _deploy(self, namespace: str, deployment: Resource) -> None:
        name = f"{deployment['metadata']['name']}-{uuid.uuid4().hex[:5]}"
        template = deployment["spec"]["template"]
        pod: Resource = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": template["metadata"]["labels"]},
            "spec": json.loads(json.dumps(template["spec"])),
            "status": {"phase": "Pending"},
        }
        self._create("pods", namespace, pod)
        there = self.directory / name
        there.mkdir()

        def secret(wanted: str) -> dict[str, str]:
            found: dict[str, str] = self.kept["secrets", namespace][wanted]["stringData"]
            return found

        self.kubelets[name] = Kubelet(pod, there, secret, partial(self.address_of, namespace))

    async def _end_pod(self, namespace: str, name: str) -> None:
        pod = self.kept["pods", namespace][name]
        pod["metadata"]["deletionTimestamp"] = "now"
        await self.kubelets.pop(name).end()
        self.kept["pods", namespace].pop(name)

    def evict(self, component: str, *, again: bool = True) -> None:
        """Evict a pod, as for lack of memory on its node. If ``again``, another pod takes its place."""

        async def evict() -> None:
            (namespace,) = {where for kind, where in self.kept if kind == "pods"}
            pod = _chosen(self.kept["pods", namespace], f"dask.org/component={component}")[0]
            await self.kubelets[pod["metadata"]["name"]].end()
            message = "The node was low on resource: memory."
            pod["status"] = {"phase": "Failed", "reason": "Evicted", "message": message}
            if again:
                for deployment in self.kept["deployments", namespace].values():
                    if pod["metadata"]["name"].startswith(deployment["metadata"]["name"]):
                        self._deploy(namespace, deployment)

        self.do(evict())

    @property
    def left(self) -> list[str]:
        """All resources and all processes that exist."""
        found = [f"{kind}/{name}" for (kind, _), kept in self.kept.items() for name in kept]
        return [*found, *self.kubelets]

    def _begin(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task


def _chosen(kept: dict[str, Resource], selector: str) -> list[Resource]:
    wanted = dict(each.split("=") for each in selector.split(",") if each)
    return [each for each in kept.values() if wanted.items() <= each["metadata"].get("labels", {}).items()]


def _selector(labels: dict[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in labels.items())


def _patch(below: Resource, above: Resource) -> None:
    for key, value in above.items():
        if isinstance(value, dict) and isinstance(below.get(key), dict):
            _patch(below[key], value)
        else:
            below[key] = value
