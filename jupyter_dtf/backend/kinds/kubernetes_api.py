"""Requests to Kubernetes through kr8s: the resources of one namespace, and readable messages for errors."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
import kr8s
import kr8s.asyncio

from ...errors import InvalidInput, NotFound, Unavailable

CORE, APPS, DASK = "v1", "apps/v1", "kubernetes.dask.org/v1"
ANSWER_S = 8.0
_LOG_LINES = 12


class KubernetesApi:
    """Access to one namespace. Methods may raise Unavailable, NotFound, and InvalidInput if an option is the cause."""

    def __init__(self, api: Any, namespace: str) -> None:
        self.api = api
        self.namespace = namespace

    async def get(self, version: str, kind: str, name: str) -> dict[str, Any]:
        return await self._ask("GET", version, f"{kind}/{name}")

    async def list(self, version: str, kind: str, **labels: str) -> list[dict[str, Any]]:
        """Return the resources of a kind with the given labels of Dask's operator."""
        selector = ",".join(f"dask.org/{name.replace('_', '-')}={value}" for name, value in labels.items())
        answer = await self._ask("GET", version, kind, params={"labelSelector": selector})
        return list(answer["items"])

    async def create(self, version: str, kind: str, resource: Mapping[str, Any]) -> dict[str, Any]:
        return await self._ask("POST", version, kind, resource)

    async def patch(self, version: str, kind: str, name: str, change: Mapping[str, Any]) -> None:
        await self._ask("PATCH", version, f"{kind}/{name}", change)

    async def delete(self, version: str, kind: str, name: str) -> None:
        """Delete a resource and everything it owns. Does nothing if the resource no longer exists."""
        with contextlib.suppress(NotFound):
            await self._ask("DELETE", version, f"{kind}/{name}", {"propagationPolicy": "Background"})

    async def log_of(self, pod: str, *, before: bool) -> str:
        """Return the end of the log of a pod's container or, with ``before``, of its predecessor before a restart.
        Empty if the log cannot be read.
        """
        params = {"tailLines": str(_LOG_LINES), **({"previous": "true"} if before else {})}
        with contextlib.suppress(NotFound, Unavailable, InvalidInput):
            async with self._answer("GET", CORE, f"pods/{pod}/log", params=params) as response:
                return str(response.text)
        return ""

    async def _ask(self, method: str, version: str, url: str, body: Any = None, **more: Any) -> dict[str, Any]:
        async with self._answer(method, version, url, body, **more) as response:
            answer: dict[str, Any] = response.json()
            return answer

    @contextlib.asynccontextmanager
    async def _answer(
        self, method: str, version: str, url: str, body: Any = None, **more: Any
    ) -> AsyncIterator[httpx.Response]:
        if body is not None:
            more["content"] = json.dumps(body)
        more["headers"] = {"Connection": "close"}  # kr8s never closes the connections that it keeps alive
        if method == "PATCH":
            more["headers"]["Content-Type"] = "application/merge-patch+json"
        with telling(self.namespace):
            async with self.api.call_api(
                method, version=version, namespace=self.namespace, url=url, timeout=ANSWER_S, **more
            ) as response:
                yield response


async def opened(options: Mapping[str, Any]) -> KubernetesApi:
    """Connect to Kubernetes. Raises InvalidInput if it is not configured or does not respond."""
    kubeconfig = _path(options["kubeconfig"])
    try:
        with telling(options["namespace"]):
            api = await kr8s.asyncio.api(
                kubeconfig=kubeconfig,
                context=options["context"] or None,
                namespace=options["namespace"] or None,
            )
    except (ValueError, KeyError, IndexError, OSError) as error:
        if options["context"] and "context" in str(error):
            raise InvalidInput(
                f"`context` must be in the kubeconfig, got {options['context']!r}", field="options.context"
            ) from None
        said = str(error).strip("'\"")
        raise InvalidInput(
            "Kubernetes is not configured: `kubeconfig`, KUBECONFIG or ~/.kube/config must be a file that names a "
            f"cluster, because this process is not in a pod ({said})",
            field="options.kubeconfig",
        ) from None
    except NotFound as error:
        raise InvalidInput(f"The server is not Kubernetes: {error}", field="options.kubeconfig") from None
    return KubernetesApi(api, api.namespace)


def _path(given: str) -> str | None:
    return os.path.expanduser(given) or None


@contextlib.contextmanager
def telling(namespace: str) -> Any:
    """Convert errors of Kubernetes within the block to errors of this package, with the message from Kubernetes."""
    try:
        yield
    except kr8s.ServerError as error:
        raise _refused(error, namespace) from None
    except (kr8s.APITimeoutError, httpx.TimeoutException):
        raise InvalidInput(f"Kubernetes did not respond within {ANSWER_S:.0f} s", field="options.kubeconfig") from None
    except httpx.HTTPError as error:
        raise InvalidInput(f"Kubernetes cannot be reached: {error}", field="options.kubeconfig") from None


def _refused(error: Any, namespace: str) -> Exception:
    status = error.response.status_code if error.response is not None else 0
    said = str(error)
    if status == 401:
        return InvalidInput(f"Kubernetes does not accept the credentials: {said}", field="options.kubeconfig")
    if status == 403:
        return InvalidInput(f"Kubernetes does not allow the request: {said}", field="options.namespace")
    if status == 404:
        if said.startswith("namespaces "):
            return InvalidInput(
                f"`namespace` must be an existing one, got {namespace!r}: {said}", field="options.namespace"
            )
        return NotFound(said)
    return Unavailable(f"Kubernetes refuses the request: {said}")
