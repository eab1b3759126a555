"""The endpoints that a cluster reserves for its jobs, on scripted hosts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from jupyter_dtf.backend.cluster.task_assignment import TaskAssignment
from jupyter_dtf.backend.planning.launch_plan import NO_LAYOUT
from jupyter_dtf.backend.planning.task_defaults import TaskDefaults
from jupyter_dtf.schema.machines import HostInfo


async def test_a_spec_is_of_the_jobs_to_which_the_cluster_was_scaled_meanwhile() -> None:
    asked: list[list[str]] = []

    async def reserve(run_id: str, places: list[str], ready: bool) -> dict[str, str]:
        asked.append(places)
        if len(asked) == 1:
            assignment.scale({"worker": 2})
        return {place: f"a:{number}" for number, place in enumerate(places)}

    def rpc(address: str) -> Any:
        return SimpleNamespace(dtf_reserve=reserve)

    hosts = {"tls://a:1": HostInfo(name="a", address="tls://a:1", machine="a", threads=2)}
    assignment = TaskAssignment(
        {"worker": 1}, NO_LAYOUT, hosts, rpc, are_expected=lambda: False, defaults=TaskDefaults()
    )
    assert await assignment.spec() == {"worker": {0: "a:0", 1: "a:1"}}
    assert asked == [["worker:0"], ["worker:0", "worker:1"]]
    assert await assignment.spec() == {"worker": {0: "a:0", 1: "a:1"}}
    assert len(asked) == 2
