"""Which task runs where: pure decisions, tested with plain values."""

from __future__ import annotations

import pytest

from jupyter_dtf.backend.devices import Gpu, GpuRequest
from jupyter_dtf.backend.plan import HostSlot, crowding, ordered_tasks, plan, slots, without_gpu
from jupyter_dtf.errors import GangIncomplete
from jupyter_dtf.schema.api import GpuInfo, HostInfo

ONE = HostSlot("tls://a:1", "a", "alpha", 4)
TWO = HostSlot("tls://a:2", "b", "alpha", 4)
FAR = HostSlot("tls://b:1", "c", "beta", 2)


def test_ranks_count_the_chief_first_then_workers_and_servers_last() -> None:
    jobs = {"ps": 1, "evaluator": 1, "reader": 1, "worker": 2, "chief": 1}
    assert ordered_tasks(jobs) == [
        ("chief", 0),
        ("worker", 0),
        ("worker", 1),
        ("reader", 0),
        ("ps", 0),
        ("evaluator", 0),
    ]


def test_neighbours_in_rank_sit_together_and_hosts_get_equal_shares() -> None:
    planned = plan({"worker": 6}, [FAR, TWO, ONE])
    assert [task.host.name for task in planned] == ["a", "a", "b", "b", "c", "c"]
    assert [task.local_rank for task in planned] == [0, 1, 2, 3, 0, 1]
    assert [task.local_size for task in planned] == [4, 4, 4, 4, 2, 2]


def test_a_hosts_threads_are_divided_among_its_tasks() -> None:
    assert [task.threads for task in plan({"worker": 2}, [ONE])] == [2, 2]
    assert [task.threads for task in plan({"worker": 3}, [ONE])] == [1, 1, 1]
    assert [task.threads for task in plan({"worker": 9}, [ONE])] == [1] * 9
    assert [task.threads for task in plan({"worker": 2}, [ONE], threads_per_task=3)] == [3, 3]


def test_more_threads_than_cores_is_said() -> None:
    assert crowding(plan({"worker": 4}, [ONE])) == ""
    assert crowding(plan({"worker": 3}, [FAR])) == "3 tasks with 3 threads share the 2 of host c"


def test_no_host_is_refused() -> None:
    with pytest.raises(GangIncomplete, match="needs a host for its 2 tasks"):
        plan({"worker": 2}, [])


def test_tasks_know_their_devices() -> None:
    gpu = GpuInfo(id="GPU-a", index=0, name="L4", memory_bytes=1 << 30, memory_used_bytes=0, utilization=0.0)
    hosts = slots([HostInfo(name="a", address="tls://a:1", machine="alpha", threads=2, gpus=[gpu])])
    assert hosts == [HostSlot("tls://a:1", "a", "alpha", 2, (Gpu("GPU-a", 1 << 30),))]
    worker, server = plan({"worker": 1, "ps": 1}, hosts)
    assert worker.devices == ["/job:worker/task:0/device:CPU:0", "/job:worker/task:0/device:GPU:0"]
    assert server.devices == ["/job:ps/task:0/device:CPU:0"]
    assert without_gpu([worker, server]) == ""
    assert plan({"worker": 1}, hosts, gpus=GpuRequest(per_task=0))[0].devices == worker.devices[:1]


def test_gpus_that_are_too_few_to_divide_are_said() -> None:
    planned = plan({"worker": 2, "ps": 1}, [HostSlot("tls://a:1", "a", "alpha", 4, (Gpu("GPU-a"),))])
    assert without_gpu(planned) == (
        "2 tasks on host a compute on its CPU, for it has 1 GPU: gpu_memory lets several share one"
    )
