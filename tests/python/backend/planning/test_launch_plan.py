"""The placement of tasks on hosts, tested with plain values."""

from __future__ import annotations

import pytest

from jupyter_dtf.backend.planning.gpu_assignment import Gpu, GpuRequest
from jupyter_dtf.backend.planning.launch_plan import (
    HostLayout,
    HostSlot,
    crowding,
    match_hosts,
    ordered_tasks,
    plan,
    plan_beside,
    plan_fewer,
    ranked,
    slots,
    without_gpu,
)
from jupyter_dtf.errors import GangIncomplete, Unavailable
from jupyter_dtf.schema.api import TaskLocation
from jupyter_dtf.schema.hosts import HostDesign, TaskPlace
from jupyter_dtf.schema.machines import GpuInfo, HostInfo

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


def test_a_host_with_more_slots_gets_more_of_the_tasks() -> None:
    hosts = slots([HostInfo("a", "tls://a:1", "alpha", slots=2), HostInfo("b", "tls://b:1", "beta")])
    for workers, expected in ((3, "aab"), (6, "aaaabb"), (1, "a")):
        assert "".join(task.host.name for task in plan({"worker": workers}, hosts)) == expected


def test_a_hosts_threads_are_divided_among_its_tasks() -> None:
    assert [task.threads for task in plan({"worker": 2}, [ONE])] == [2, 2]
    assert [task.threads for task in plan({"worker": 3}, [ONE])] == [1, 1, 1]
    assert [task.threads for task in plan({"worker": 9}, [ONE])] == [1] * 9
    assert [task.threads for task in plan({"worker": 2}, [ONE], threads_per_task=3)] == [3, 3]


def test_more_threads_than_cores_is_said() -> None:
    assert crowding(plan({"worker": 4}, [ONE])) == ""
    assert crowding(plan({"worker": 3}, [FAR])) == "3 tasks with 3 threads share the 2 threads of host c"


def test_no_host_is_refused() -> None:
    with pytest.raises(GangIncomplete, match="No host is available for the 2 tasks of the run"):
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
        "2 tasks on host a compute on its CPU because it has 1 GPU: set gpu_memory to let several tasks share one"
    )


# -- layouts of a design -------------------------------------------------------------------------------------------

NAMED = [HostDesign(name="a", gpus=[0, 0]), HostDesign(name="b"), HostDesign(name="c")]
GPUS = (Gpu("GPU-0", 16 << 30), Gpu("GPU-1", 16 << 30))


def seats(*places: TaskPlace, gpus: tuple[Gpu, ...] = GPUS, **jobs: int) -> dict[str, tuple[str, list[int]]]:
    hosts = [HostSlot("tls://a:1", "a", "alpha", 4, gpus), TWO, FAR]
    planned = plan(jobs, hosts, layout=HostLayout(NAMED, places))
    return {location.task: (location.host, location.gpus) for location in (task.location for task in planned)}


def test_tasks_are_where_they_were_put() -> None:
    first = TaskPlace(job="worker", index=0, host="c")
    second = TaskPlace(job="worker", index=1, host="a", device="GPU:1")
    server = TaskPlace(job="ps", index=0, host="a", device="GPU:0")
    assert seats(first, second, server, worker=2, ps=1) == {
        "worker:0": ("c", []),
        "worker:1": ("a", [1]),
        "ps:0": ("a", [0]),
    }


def test_the_others_go_where_there_is_room_on_what_nobody_was_put_on() -> None:
    put = TaskPlace(job="worker", index=2, host="a", device="GPU:0")
    assert seats(put, worker=4, ps=1) == {
        "worker:0": ("b", []),
        "worker:1": ("a", []),  # the one remaining GPU cannot be divided equally
        "worker:2": ("a", [0]),
        "worker:3": ("b", []),
        "ps:0": ("c", []),
    }
    alone = HostSlot("tls://a:1", "a", "alpha", 4, GPUS)
    first = TaskPlace(job="worker", index=1, host="a", device="GPU:0")
    both = plan({"worker": 2}, [alone], layout=HostLayout(NAMED[:1], [first]))
    assert [task.location.gpus for task in both] == [[1], [0]]
    on_cpu = TaskPlace(job="worker", index=0, host="a")
    assert seats(on_cpu, worker=1) == {"worker:0": ("a", [])}
    assert seats(TaskPlace(job="ps", index=7, host="a"), worker=1) == {"worker:0": ("a", [0, 1])}  # scaled down since


def test_a_cap_is_kept() -> None:
    put = TaskPlace(job="worker", index=0, host="a", device="GPU:1", memory_bytes=4 << 30)
    host = HostSlot("tls://a:1", "a", "alpha", 4, GPUS)
    (task,) = plan({"worker": 1}, [host], layout=HostLayout(NAMED[:1], [put]))
    assert (task.gpus.gpus, task.gpus.memory_bytes) == (("GPU-1",), 4 << 30)
    assert task.location == TaskLocation(task="worker:0", host="a", gpus=[1], memory_bytes=4 << 30)


def test_a_run_that_asks_for_gpus_gets_them_whatever_was_drawn() -> None:
    put = TaskPlace(job="worker", index=0, host="a", device="CPU")
    host = HostSlot("tls://a:1", "a", "alpha", 4, GPUS)
    layout = HostLayout(NAMED[:1], [put])
    assert plan({"worker": 1}, [host], gpus=GpuRequest(per_task=2), layout=layout)[0].location.gpus == [0, 1]
    (task,) = plan({"worker": 1}, [host], layout=layout)
    assert task.location.gpus == [] and without_gpu([task]) == ""


def test_what_was_drawn_and_is_not_there_is_named() -> None:
    with pytest.raises(Unavailable, match=r"worker:0 was assigned to GPU:1 of host a, which has 1 GPU\Z"):
        seats(TaskPlace(job="worker", index=0, host="a", device="GPU:1"), gpus=GPUS[:1], worker=1)
    with pytest.raises(Unavailable, match="worker:0 was assigned to GPU:0 of host b, which has none"):
        seats(TaskPlace(job="worker", index=0, host="b", device="GPU:0"), worker=1)
    with pytest.raises(Unavailable, match="worker:0 was given 17 GiB of GPU:0 of host a, which has 16 GiB"):
        seats(TaskPlace(job="worker", index=0, host="a", device="GPU:0", memory_bytes=17 << 30), worker=1)
    with pytest.raises(GangIncomplete, match=r"the 3 hosts of the design, got 1\. Missing: b, c"):
        plan({"worker": 1}, [ONE], layout=HostLayout(NAMED, ()))
    with pytest.raises(GangIncomplete, match="worker:0 must be on one of the hosts of the design, a, b, c, got 'z'"):
        seats(TaskPlace(job="worker", index=0, host="z"), worker=1)


def test_drawn_hosts_are_found_by_name_then_by_machine_then_in_order() -> None:
    there = [
        HostSlot(f"tls://x:{name}", name, machine, 1) for name, machine in [("10", "m"), ("2", "m"), ("x", "beta")]
    ]
    drawn = [HostDesign(name=name) for name in ("first", "beta", "10")]
    assert {name: slot.name for name, slot in match_hosts(drawn, there).items()} == {
        "first": "2",
        "beta": "x",
        "10": "10",
    }
    numbered = [HostDesign(name=name) for name in ("p", "q")]
    assert [slot.name for slot in match_hosts(numbered, there[:2]).values()] == ["2", "10"]


def test_those_that_go_on_stay_and_a_lost_one_comes_to_where_it_was() -> None:
    planned = plan({"worker": 3}, [ONE, TWO, FAR], threads_per_task=2)
    assert plan_beside(planned, {"worker:0", "worker:2"}, [ONE, TWO, FAR], crowd=False) == planned


def test_a_lost_one_whose_host_is_gone_comes_to_where_most_threads_are_left() -> None:
    planned = plan({"worker": 3}, [ONE, TWO, FAR], threads_per_task=2)
    assert [task.host for task in planned] == [ONE, TWO, FAR]
    found = plan_beside(planned, {"worker:0", "worker:1"}, [ONE, TWO], crowd=False)
    assert [(task.task, task.host, task.rank, task.local_rank, task.local_size) for task in found] == [
        ("worker:0", ONE, 0, 0, 3),
        ("worker:1", TWO, 1, 1, 3),
        ("worker:2", ONE, 2, 2, 3),
    ]


def test_a_lost_one_has_no_room_where_threads_are_taken_unless_tasks_may_crowd() -> None:
    planned = plan({"worker": 2}, [ONE, FAR], threads_per_task=4)
    with pytest.raises(GangIncomplete, match="No host has 4 free threads for worker:0"):
        plan_beside(planned, {"worker:1"}, [FAR], crowd=False)
    assert [task.host for task in plan_beside(planned, {"worker:1"}, [FAR], crowd=True)] == [FAR, FAR]


def test_one_with_a_gpu_of_its_own_comes_to_no_other_host() -> None:
    gpu = HostSlot("tls://g:1", "g", "gamma", 4, (Gpu("gpu-0", 1 << 30),))
    planned = plan({"worker": 2}, [ONE, gpu], gpus=GpuRequest())
    (lost,) = [task.task for task in planned if task.host == gpu]
    (kept,) = [task.task for task in planned if task.host == ONE]
    with pytest.raises(GangIncomplete, match=f"{lost} must return to host g, which no longer exists"):
        plan_beside(planned, {kept}, [ONE], crowd=True)


def test_of_a_gang_that_begins_again_those_without_room_are_left_out() -> None:
    planned = plan({"worker": 3, "ps": 1}, [ONE, TWO, FAR], threads_per_task=2)
    assert [(task.task, task.host) for task in planned] == [
        ("worker:0", ONE),
        ("worker:1", ONE),
        ("worker:2", TWO),
        ("ps:0", FAR),
    ]

    def left(least: int, *hosts: HostSlot) -> list[tuple[str, HostSlot, int]]:
        return [(task.task, task.host, task.rank) for task in plan_fewer(planned, least, hosts)]

    w0, w1, w2, ps = ((task.task, task.host, task.rank) for task in planned)
    assert left(1, ONE, TWO, FAR) == [w0, w1, w2, ps]
    assert left(1, ONE, FAR) == [w0, w1, ("ps:0", FAR, 2)]
    assert left(1, TWO, FAR) == [("worker:0", TWO, 0), ("worker:2", TWO, 1), ("ps:0", FAR, 2)]
    assert left(1, ONE, TWO) == [w0, w1, w2, ("ps:0", TWO, 3)]
    assert left(1, ONE) == [w0, ("ps:0", ONE, 1)], "a worker makes room for its server"
    with pytest.raises(GangIncomplete, match="too few threads or devices for 2 of 3 workers"):
        left(2, ONE)
    with pytest.raises(GangIncomplete, match="too few threads or devices for 1 of 3 workers"):
        left(1)


def test_workers_that_only_train_together_are_left_out_together() -> None:
    hosts = [HostSlot(f"tls://h:{index}", f"h{index}", "machine", 1) for index in range(4)]
    planned = plan({"worker": 4}, hosts)

    def left(least: int, group: int, *there: int) -> list[tuple[str, str]]:
        found = plan_fewer(planned, least, [hosts[index] for index in there], group)
        return [(task.task, task.host.name) for task in found]

    assert left(1, 1, 1, 2, 3) == [("worker:1", "h1"), ("worker:2", "h2"), ("worker:3", "h3")]
    assert left(1, 2, 1, 2, 3) == [("worker:2", "h2"), ("worker:3", "h3")]
    assert left(1, 2, 0, 1, 3) == [("worker:0", "h0"), ("worker:1", "h1")]
    assert left(1, 2, 0, 3) == [("worker:0", "h0"), ("worker:1", "h3")], "each copy has lost one of its two"
    with pytest.raises(GangIncomplete, match="too few threads or devices for 4 of 4 workers"):
        left(3, 2, 1, 2, 3)
    with pytest.raises(GangIncomplete, match="too few threads or devices for 2 of 4 workers"):
        left(1, 2, 1)


def test_ranks_are_given_anew_to_those_that_are_left() -> None:
    planned = plan({"worker": 3}, [ONE, TWO, FAR], threads_per_task=2)
    assert [(task.task, task.rank, task.local_rank, task.local_size) for task in ranked(planned[1:])] == [
        ("worker:1", 0, 0, 1),
        ("worker:2", 1, 0, 1),
    ]
