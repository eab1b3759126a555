"""A design as a script in plain TensorFlow, which needs nothing of this package. Pure."""

from __future__ import annotations

import json
import re
from importlib import resources

from ..errors import InvalidInput
from ..schema.design import Design

FIRST_PORT = 2222


def script(design: Design) -> str:
    """The program that trains a design's model as it is placed: start it once for each task of the cluster.

    Its tasks are on the hosts that the design puts them on, by name, else on this machine. Raises InvalidInput for a
    design without placed layers, and for what the script does not do: splits, replicas.
    """
    if design.placement.splits:
        raise InvalidInput(
            f"The script does not split layers; dtf.Pipeline does. Received: {', '.join(design.placement.splits)}",
            field="placement.splits",
        )
    if design.run.replicas > 1:
        raise InvalidInput(
            f"The script has one copy of the pipeline; dtf.Pipeline has more. Received: {design.run.replicas}",
            field="run.replicas",
        )
    if not design.placement.devices:
        raise InvalidInput("A script needs a placement of layers. Received: none", field="placement.devices")
    cluster = _cluster(design)
    client = ("chief" if "chief" in cluster else "worker", 0)
    if client[0] not in cluster:
        raise InvalidInput(f"The client is a task of chief or worker. Received: {list(cluster)}", field="cluster.jobs")
    run = design.run
    filled = {
        "TITLE": re.sub(r"[^\w .-]", "_", design.model.graph.model if design.model else "pipeline"),
        "COMMANDS": _commands(cluster, client),
        "CLIENT": f"{client[0]}:{client[1]}",
        "CLUSTER": json.dumps(cluster),
        "CLIENT_TASK": f'("{client[0]}", {client[1]})',
        "DEVICES": json.dumps(design.placement.devices, indent=4),
        "SETTINGS": f"{run.batch_size}, {run.microbatches}, {run.epochs}",
    }
    text = resources.files(__package__).joinpath("exported_script.py.txt").read_text(encoding="utf-8")
    return re.sub(r"@([A-Z_]+)@", lambda match: filled[match[1]], text)


def _cluster(design: Design) -> dict[str, list[str]]:
    """The address of each task. Ports count up on each host."""
    hosts = {(place.job, place.index): place.host for place in design.cluster.tasks}
    taken: dict[str, int] = {}
    cluster: dict[str, list[str]] = {}
    for job, count in design.cluster.jobs.items():
        for index in range(count):
            host = hosts.get((job, index)) or "localhost"
            cluster.setdefault(job, []).append(f"{host}:{FIRST_PORT + taken.get(host, 0)}")
            taken[host] = taken.get(host, 0) + 1
    return cluster


def _commands(cluster: dict[str, list[str]], client: tuple[str, int]) -> str:
    lines = []
    for job, addresses in cluster.items():
        for index in range(len(addresses)):
            more = " --model=model.keras --data=data.npz" if (job, index) == client else ""
            lines.append(f"    python script.py --job_name={job} --task_index={index}{more}")
    return "\n".join(lines)
