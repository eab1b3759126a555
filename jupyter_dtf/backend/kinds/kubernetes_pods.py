"""Describes the state of a pod in words, based on the pod's resource in Kubernetes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

_WORDS = 600
_ON_THE_WAY = ("ContainerCreating", "PodInitializing")


class PodState(NamedTuple):
    """The progress and the problem of a pod, worded for a ``ComingHost``."""

    step: str
    problem: str = ""
    is_hopeless: bool = False
    """Whether waiting is pointless, because the request itself is wrong."""


_HOPELESS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError")


def read(pod: Mapping[str, Any], log: str = "") -> PodState:
    """Return the state of a pod. If its container has ended, ``log`` is the end of that container's log."""
    status = pod.get("status", {})
    if status.get("phase") == "Failed":
        return PodState("ended", _ended(status, log))
    for condition in status.get("conditions", []):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return PodState("waiting for a node", _sentence(condition.get("reason"), condition.get("message")))
    containers = status.get("containerStatuses", [])
    for container in containers:
        waiting = container.get("state", {}).get("waiting")
        if waiting and waiting.get("reason") not in _ON_THE_WAY:
            last = _last(container, log)
            said = last or _sentence(waiting.get("reason"), waiting.get("message"))
            return PodState("waiting", said, waiting.get("reason") in _HOPELESS or bool(last))
    if any("waiting" in container.get("state", {}) for container in containers):
        return PodState("pulling the image")
    if not containers:
        return PodState("waiting for a node")
    return PodState("starting Python", next(filter(None, (_last(each, log) for each in containers)), ""))


def needs_log(pod: Mapping[str, Any]) -> bool:
    """Return whether a container has ended, so that its log should be requested."""
    containers = pod.get("status", {}).get("containerStatuses", [])
    return any("terminated" in {**each.get("lastState", {}), **each.get("state", {})} for each in containers)


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Return whether Kubernetes reports that a pod is ready."""
    conditions = pod.get("status", {}).get("conditions", [])
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def worker_name(pod: Mapping[str, Any]) -> str:
    """Return the name of the Dask worker in a pod; empty if the pod has none."""
    for container in pod["spec"]["containers"]:
        for variable in container.get("env", []):
            if variable["name"] == "DASK_WORKER_NAME":
                return str(variable["value"])
    return ""


def _ended(status: Mapping[str, Any], log: str) -> str:
    if status.get("reason") or status.get("message"):
        verb = "was evicted" if status.get("reason") == "Evicted" else f"has ended ({status.get('reason', 'Failed')})"
        return f"its pod {verb}{_told(status.get('message'))}"
    words = next(filter(None, (_last(each, log) for each in status.get("containerStatuses", []))), "")
    return words or "its pod has ended"


def _last(container: Mapping[str, Any], log: str) -> str:
    """Describe how the container, or its predecessor before a restart, ended."""
    ended = container.get("state", {}).get("terminated") or container.get("lastState", {}).get("terminated")
    if not ended:
        return ""
    how = ended.get("reason") or "Error"
    status = f", status {ended['exitCode']}" if ended.get("exitCode") else ""
    return f"its container has ended ({how}{status}){_told(ended.get('message') or log)}"


def _told(words: str | None) -> str:
    lines = [line.strip() for line in (words or "").splitlines() if line.strip()]
    return f": {' / '.join(lines[-3:])[-_WORDS:]}" if lines else ""


def _sentence(reason: str | None, message: str | None) -> str:
    return ": ".join(filter(None, [reason, (message or "")[-_WORDS:]]))
