"""The Kubernetes resources of a cluster: the resource for Dask's operator, and the secret for the pods."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from ...errors import InvalidInput

COMM_PORT, HTTP_PORT = 8786, 8787
NODE_SETTINGS = "/etc/jupyter-dtf/settings.json"
LABELS = {"app.kubernetes.io/managed-by": "jupyter-dtf"}
FORGOTTEN_S = 120
"""Seconds from the end of the cluster process, as reported by the scheduler, until the operator deletes the cluster."""
_KINDS = "jupyter_dtf.backend.kinds"
_POD_IP = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


def cluster(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``DaskCluster`` resource, with no workers yet."""
    given = template(options)
    own = given.get("metadata", {})
    metadata = {
        "labels": {**own.get("labels", {}), **LABELS},
        "annotations": dict(own.get("annotations", {})),
    }
    return {
        "apiVersion": "kubernetes.dask.org/v1",
        "kind": "DaskCluster",
        "metadata": {"name": name, **metadata},
        "spec": {
            "idleTimeout": FORGOTTEN_S,
            "scheduler": {"spec": _pod(given, _scheduler(options), name, options), "service": _service(name, options)},
            "worker": {"replicas": 0, "spec": _pod(given, _worker(name, options), name, options)},
        },
    }


def secret(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the secret with the pods' settings. These include private keys, so they must not be on a command line."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "labels": LABELS},
        "stringData": {Path(NODE_SETTINGS).name: json.dumps(settings)},
    }


def as_yaml(resource: Mapping[str, Any]) -> str:
    """Return a resource as YAML, to be shown to the user."""
    return str(yaml.dump(dict(resource), Dumper=_Plain, sort_keys=False))


class _Plain(yaml.SafeDumper):
    """A dumper that writes neither anchors nor aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def template(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``metadata`` and ``spec`` of the user's pod template; empty without one. Raises InvalidInput."""
    file = options["pod_template"]
    if not file:
        return {}
    try:
        read = yaml.safe_load(Path(file).expanduser().read_text())
    except (OSError, ValueError, yaml.YAMLError) as error:
        said = " ".join(str(error).split())
        raise _no_pod(f"`pod_template` cannot be read: {said:.300}") from None
    pod = read.get("template", read) if isinstance(read, dict) else read  # a PodTemplate, or a pod
    if not isinstance(pod, dict) or not isinstance(pod.get("spec"), dict):
        raise _no_pod(f"`pod_template` must have a pod's `spec`, got {read!r:.100}")
    containers = pod["spec"].get("containers", [])
    if not isinstance(containers, list) or not all(isinstance(each, dict) for each in containers):
        raise _no_pod("`containers` in the `spec` of `pod_template` must be a list of containers")
    return {"metadata": pod.get("metadata") or {}, "spec": pod["spec"]}


def _no_pod(message: str) -> InvalidInput:
    return InvalidInput(message, field="options.pod_template")


# -- pods ----------------------------------------------------------------------------------------------------------


def _pod(given: Mapping[str, Any], container: dict[str, Any], name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the template's pod spec, with ``container`` merged into the template's container of the same name or, if
    there is none, into its first container.
    """
    spec = copy.deepcopy(dict(given.get("spec", {})))
    theirs = spec.get("containers", [])
    same = [each for each in theirs if each.get("name") == container["name"]] or theirs[:1]
    beside = [each for each in theirs if each not in same and each.get("name") not in ("scheduler", "worker")]
    spec["containers"] = [_merged(same[0] if same else {}, container), *beside]
    own = {
        "volumes": [
            {"name": "jupyter-dtf", "secret": {"secretName": name, "defaultMode": 0o400}},
            # By default, a pod has only 64 MB of shared memory, through which its tasks exchange gradients.
            {"name": "shared-memory", "emptyDir": {"medium": "Memory"}},
        ],
        "automountServiceAccountToken": bool(options["service_account"]),
    }
    if options["service_account"]:
        own["serviceAccountName"] = options["service_account"]
    made: dict[str, Any] = _merged(spec, own)
    return made


def _scheduler(options: Mapping[str, Any]) -> dict[str, Any]:
    health = {"httpGet": {"port": "http-dashboard", "path": "/health"}}
    command = [options["python"], "-m", f"{_KINDS}.pod_scheduler", "--host", "$(POD_IP)", "--settings", NODE_SETTINGS]
    wants = {"cpu": "500m", "memory": "1Gi"}
    return _container("scheduler", options, command, wants) | {
        "ports": [
            {"name": "tcp-comm", "containerPort": COMM_PORT, "protocol": "TCP"},
            {"name": "http-dashboard", "containerPort": HTTP_PORT, "protocol": "TCP"},
        ],
        "readinessProbe": {**health, "periodSeconds": 1},
        "livenessProbe": {**health, "initialDelaySeconds": 30, "periodSeconds": 20},
    }


def _worker(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    cores = options["cores"]
    command = [
        options["python"], "-m", f"{_KINDS}.job_worker", "$(JUPYTER_DTF_SCHEDULER)", "--name", "$(DASK_WORKER_NAME)",
        "--nthreads", str(max(1, int(cores))), "--memory-limit", str(options["memory_bytes"]),
        "--settings", NODE_SETTINGS,
    ]  # fmt: skip
    wants = {"cpu": f"{round(cores * 1000)}m", "memory": str(options["memory_bytes"])}
    if options["gpus"]:
        wants[options["gpu_resource"]] = str(options["gpus"])
    made = _container("worker", options, command, wants)
    made["env"].append({"name": "JUPYTER_DTF_SCHEDULER", "value": f"tls://{name}-scheduler:{COMM_PORT}"})
    return made


def _container(name: str, options: Mapping[str, Any], command: list[str], wants: dict[str, str]) -> dict[str, Any]:
    return {
        "name": name,
        "image": options["image"],
        "command": command,
        "env": [_POD_IP],
        "resources": {"requests": wants, "limits": wants},
        "volumeMounts": [
            {"name": "jupyter-dtf", "mountPath": str(Path(NODE_SETTINGS).parent), "readOnly": True},
            {"name": "shared-memory", "mountPath": "/dev/shm"},
        ],
    }


def _service(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "LoadBalancer" if options["reach"] == "load-balancer" else "ClusterIP",
        "selector": {"dask.org/cluster-name": name, "dask.org/component": "scheduler"},
        "ports": [
            {"name": port, "protocol": "TCP", "port": number, "targetPort": port}
            for port, number in (("tcp-comm", COMM_PORT), ("http-dashboard", HTTP_PORT))
        ],
    }


def _merged(below: Any, above: Any) -> Any:
    """Merge ``above``, which takes precedence, into ``below``. List items are matched by their ``name``."""
    if isinstance(below, dict) and isinstance(above, dict):
        made = dict(below)
        for key, value in above.items():
            made[key] = _merged(below[key], value) if key in below else value
        return made
    if isinstance(below, list) and isinstance(above, list) and all(isinstance(each, dict) for each in below + above):
        names = {each.get("name"): each for each in above}
        kept = [_merged(each, names.pop(each.get("name"))) if each.get("name") in names else each for each in below]
        return kept + [each for each in above if each.get("name") in names]
    return above
