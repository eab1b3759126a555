from __future__ import annotations

import pytest

from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.base import convert
from jupyter_dtf.schema.cluster_request import ClusterRequest
from jupyter_dtf.schema.hosts import HostDesign, TaskPlace, wrong_places

GIB = 1 << 30
JOBS = {"worker": 2, "ps": 1}
HOSTS = [HostDesign(name="a", cpus=8, memory_bytes=32 * GIB, gpus=[16 * GIB, 0]), HostDesign(name="b")]


def wrong(*tasks: TaskPlace, hosts: list[HostDesign] = HOSTS) -> list[tuple[str, str]]:
    return [(error.field, str(error)) for error in wrong_places(JOBS, hosts, tasks)]


def put(job: str = "worker", index: int = 0, host: str = "a", device: str = "CPU", memory_bytes: int = 0) -> TaskPlace:
    return TaskPlace(job=job, index=index, host=host, device=device, memory_bytes=memory_bytes)


def test_nothing_is_wrong() -> None:
    tasks = [
        put(),
        put(index=1, device="GPU:1", memory_bytes=99 * GIB),  # a GPU of unknown size
        put("ps", device="GPU:0", memory_bytes=16 * GIB),
    ]
    assert wrong(*tasks) == []
    assert [task.gpu for task in tasks] == [None, 1, 0]


@pytest.mark.parametrize(
    ("task", "field", "message"),
    [
        (put("chief"), "job", "`job` must be one of worker, ps, got 'chief'"),
        (put(index=2), "index", "The task index must be from 0 to 1 for the job worker, got 2"),
        (put(index=-1), "index", "The task index must be from 0 to 1 for the job worker, got -1"),
        (put(host="c"), "host", "The host of worker:0 must be one of the design's hosts (a, b), got 'c'"),
        (put(device="TPU"), "device", "A device must be CPU, GPU:0, GPU:1 and so on, got 'TPU'"),
        (put(device="GPU:0\n"), "device", "A device must be CPU, GPU:0, GPU:1 and so on, got 'GPU:0\\n'"),
        (put(device="GPU:2"), "device", "The host a has GPU:0 to GPU:1, but the task is placed on GPU:2"),
        (put(host="b", device="GPU:0"), "device", "The host b has no GPU, but the task is placed on GPU:0"),
        (put(memory_bytes=-1), "memory_bytes", "A memory cap must be >= 0 (0: no cap), got -1"),
        (
            put(device="GPU:0", memory_bytes=17 * GIB),
            "memory_bytes",
            f"A memory cap must be <= {16 * GIB}, the memory of GPU:0 of a, got {17 * GIB}",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_field(task: TaskPlace, field: str, message: str) -> None:
    assert wrong(put("ps"), task) == [(f"tasks[1].{field}", message)]


def test_a_task_has_one_place() -> None:
    assert wrong(put(), put(host="b")) == [("tasks[1]", "A task must be placed only once, got worker:0 twice")]


@pytest.mark.parametrize(
    ("host", "field", "message"),
    [
        (HostDesign(name=""), "name", "A host must have a name, got ''"),
        (HostDesign(name="a"), "name", "Host names must be unique, got 'a' twice"),
        (HostDesign(name="c", cpus=0), "cpus", "A host must have at least one CPU, got 0"),
        (HostDesign(name="c", memory_bytes=-1), "memory_bytes", "Memory must be >= 0 (0: unknown), got -1"),
        (HostDesign(name="c", gpus=[0, -5]), "gpus[1]", "Memory must be >= 0 (0: unknown), got -5"),
    ],
)
def test_hosts(host: HostDesign, field: str, message: str) -> None:
    assert wrong(hosts=[*HOSTS, host]) == [(f"hosts[2].{field}", message)]


def test_a_request_with_a_wrong_place_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"hosts \(none\), got 'a'") as refused:
        convert({"tasks": [{"job": "worker", "index": 0, "host": "a"}]}, ClusterRequest)
    assert refused.value.field == "tasks[0].host"
