"""The kind ``kubernetes``: scheduler and workers are pods in one namespace, created by Dask's operator.

This module describes the kind and checks its options; ``kubernetes_spec`` defines the resources, and
``kubernetes_cluster`` creates, scales and deletes them.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import InvalidInput
from ...schema.api import FieldInfo
from ...schema.hosts import HostDesign
from . import idle_release
from .base import Kind

PORT_FORWARD, SERVICE, LOAD_BALANCER = "port-forward", "service", "load-balancer"
GIB = 1 << 30
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")
_IMAGE = re.compile(r"[\w][\w.:/@-]*\Z", re.ASCII)
_WORD = re.compile(r"[\w.@:/-]*\Z", re.ASCII)


class KubernetesKind(Kind):
    """The kind ``kubernetes``: pods created by Dask's operator for Kubernetes."""

    kind = "kubernetes"
    title = "Kubernetes"
    scheduler_is_elsewhere = True

    def missing(self) -> str:
        if importlib.util.find_spec("kr8s") is None:
            return "kr8s is not installed: pip install jupyter-dtf[kubernetes]"
        return ""

    def fields(self) -> list[FieldInfo]:
        def text(name: str, title: str, help_: str, default: str = "") -> FieldInfo:
            return FieldInfo(name=name, title=title, type="string", default=default, help=help_)

        return [
            text("image", "Image", "An image with jupyter-dtf[cpu] or jupyter-dtf[gpu] of the same version as here."),
            text("namespace", "Namespace", "Empty: from the kubeconfig, or that of the pod that this server runs in."),
            FieldInfo(
                name="tasks_per_pod",
                title="Tasks per pod",
                type="integer",
                default=1,
                minimum=1,
                maximum=1024,
                help="As many pods are requested as the tasks need. The tasks of a pod share its cores and memory.",
            ),
            FieldInfo(name="cores", title="Cores per pod", type="number", default=2, minimum=0.1, maximum=4096),
            FieldInfo(name="memory_bytes", title="Memory per pod", type="bytes", default=4 * GIB, minimum=64 << 20),
            FieldInfo(name="gpus", title="GPUs per pod", type="integer", default=0, minimum=0, maximum=64),
            text(
                "gpu_resource", "GPU resource", "The resource name of GPUs in a container's limits.", "nvidia.com/gpu"
            ),
            text("service_account", "Service account", "The account of the pods. Empty: that of the namespace."),
            text(
                "pod_template",
                "Pod template",
                "A YAML file that defines a pod, for example with tolerations and volumes. These options override it.",
            ),
            text("python", "Python in the image", "The name or path of the program.", "python"),
            FieldInfo(
                name="reach",
                title="How the scheduler is reached",
                type="choice",
                default=PORT_FORWARD,
                choices=[PORT_FORWARD, SERVICE, LOAD_BALANCER],
                help="port-forward: through the Kubernetes API. service: by its name, from a pod in the same "
                "Kubernetes. load-balancer: by a separate address.",
            ),
            text("kubeconfig", "Kubeconfig", "Empty: KUBECONFIG, else ~/.kube/config, else this pod's configuration."),
            text("context", "Context", "A context of the kubeconfig. Empty: the current one."),
            *idle_release.fields(),
        ]

    def hosts(self, options: Mapping[str, Any], jobs: Mapping[str, int]) -> int:
        return -(-sum(jobs.values()) // int(options["tasks_per_pod"]))

    def expected_hosts(self, options: Mapping[str, Any]) -> list[HostDesign]:
        """Return no hosts: Kubernetes chooses the nodes. Raises InvalidInput for invalid options."""
        if not _IMAGE.match(options["image"]):
            raise InvalidInput(
                f"`image` must name an image with jupyter-dtf in it, got {options['image']!r:.200}",
                field="options.image",
            )
        for field in ("namespace", "service_account"):
            if options[field] and not (_NAME.match(options[field]) and len(options[field]) <= 63):
                raise InvalidInput(
                    f"`{field}` must be lower-case letters, digits and hyphens, got {options[field]!r:.100}",
                    field=f"options.{field}",
                )
        for field in ("gpu_resource", "python", "context"):
            if not _WORD.match(options[field]):
                raise InvalidInput(
                    f"`{field}` must be one word of letters, digits and .@:/-, got {options[field]!r:.100}",
                    field=f"options.{field}",
                )
        for field in ("pod_template", "kubeconfig"):
            if options[field] and not Path(options[field]).expanduser().is_file():
                raise InvalidInput(
                    f"`{field}` must be an existing file, got {options[field]!r:.200}", field=f"options.{field}"
                )
        from . import kubernetes_spec

        kubernetes_spec.template(options)
        return []

    def script(self, options: Mapping[str, Any]) -> str:
        from . import kubernetes_spec

        return kubernetes_spec.as_yaml(kubernetes_spec.cluster("jupyter-dtf", options))

    async def create(self, options: Mapping[str, Any], security: Any, directory: Path) -> Any:
        from . import kubernetes_cluster

        return await kubernetes_cluster.start(options, security, directory.name, self.tell_start)
