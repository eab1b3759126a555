"""Exports a design as a script in plain TensorFlow that does not need this package. Pure."""

from __future__ import annotations

import json
import re
from importlib import resources

from ...errors import InvalidInput
from ...schema.design import Design
from ...schema.strategy import Pipeline

FIRST_PORT = 2222


def script(design: Design) -> str:
    """Return a script that trains a design's model as placed. The user starts it once for each task of the cluster.

    In the script, a task's address is the name of the host that the design assigns it to, or ``localhost`` if it
    assigns none. Raises InvalidInput if the design has no placed layers, or if its tasks cannot be divided among the
    copies of the model.
    """
    placement = design.placement
    if not placement.devices and not placement.splits:
        raise InvalidInput("A design needs placed layers to be exported", field="placement.devices")
    tasks = [(job, index) for job in Pipeline.jobs for index in range(design.cluster.jobs.get(job, 0))]
    if design.run.replicas < 1 or len(tasks) % design.run.replicas:
        raise InvalidInput(
            f"Copies of a pipeline must share the tasks equally, got {len(tasks)} tasks and {design.run.replicas} "
            "copies",
            field="run.replicas",
        )
    cluster = _cluster(design)
    client = ("chief" if "chief" in cluster else "worker", 0)
    if client[0] not in cluster:
        raise InvalidInput(
            f"`jobs` must include chief or worker, whose first task is the client, got {list(cluster)}",
            field="cluster.jobs",
        )
    run = design.run
    filled = {
        "TITLE": re.sub(r"[^\w .-]", "_", design.model.graph.model if design.model else "pipeline"),
        "COMMANDS": _commands(cluster, client),
        "CLIENT": f"{client[0]}:{client[1]}",
        "CLUSTER": json.dumps(cluster),
        "CLIENT_TASK": f'("{client[0]}", {client[1]})',
        "DEVICES": json.dumps(placement.devices, indent=4),
        "SPLITS": json.dumps(placement.splits, indent=4),
        "TASKS": json.dumps(tasks),
        "REPLICAS": str(run.replicas),
        "TAKES_TURNS": str(design.model is not None and design.model.graph.takes_turns),
        "SETTINGS": f"{run.batch_size}, {run.microbatches}, {run.epochs}",
    }
    text = resources.files(__package__).joinpath("exported_script.py.txt").read_text(encoding="utf-8")
    return re.sub(r"@([A-Z_]+)@", lambda match: filled[match[1]], text)


def _cluster(design: Design) -> dict[str, list[str]]:
    """Return the addresses of the tasks, keyed by job. The ports on each host are consecutive."""
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
