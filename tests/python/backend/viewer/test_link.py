"""A viewer's stream survives any message, and reports when no more messages arrive."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from distributed import Scheduler, Security

from jupyter_dtf.backend.cluster.controller import Controller
from jupyter_dtf.backend.cluster.settings import ControllerSettings
from jupyter_dtf.backend.machine.visibility_mark import Mark
from jupyter_dtf.backend.viewer.connections import Connection
from jupyter_dtf.backend.viewer.link import SILENT_S, Link, UnknownOperation
from jupyter_dtf.errors import Unavailable
from jupyter_dtf.schema.api import ClusterState
from jupyter_dtf.schema.cluster_request import ClusterRequest

from ...patience import left_s


def connection_to(address: str, security: Any) -> Connection:
    return Connection(
        name="c",
        kind="local",
        state=ClusterState.RUNNING,
        pid=0,
        pid_created=0.0,
        created=0.0,
        jobs={"worker": 1},
        address=address,
        ca=security.tls_ca_file,
        cert=security.tls_client_cert,
        key=security.tls_client_key,
    )


def test_what_another_version_does_not_know_is_said_in_a_sentence(tmp_path: Path) -> None:
    """This includes versions so old that they only raise Python's own exceptions."""

    def old_stop(run_id: str) -> None:
        raise AssertionError(run_id)

    def old_submit() -> None:
        msgspec.convert({"later": 1}, ClusterRequest)

    def broken() -> None:
        raise TypeError("'int' object is not iterable")

    async def ask() -> None:
        security = Security.temporary()
        async with Scheduler(port=0, dashboard_address=":0", security=security, protocol="tls") as scheduler:
            request = ClusterRequest(name="c", jobs={"worker": 1}, keep=True)
            settings = ControllerSettings(request=request, token="0", runs=Mark.of(tmp_path), created=time.time())
            controller = Controller(settings)
            await controller.start(scheduler)
            link = await Link.open(connection_to(scheduler.address, security), lambda message: None, lambda: None)
            with pytest.raises(
                Unavailable, match="does not understand the arguments .* stop_run: .*keyword argument 'later'"
            ):
                await link.request("stop_run", run_id="r", later=1)
            scheduler.handlers |= {"dtf_old_stop": old_stop, "dtf_old_submit": old_submit, "dtf_broken": broken}
            rule = "The cluster c cannot process the operation '{}' as jupyter_dtf .* requests it: its version {}"
            for operation, arguments, why in (
                ("later", {}, "does not know it. To use it, close and restart"),
                ("old_stop", {"run_id": "r", "later": 1}, "takes different arguments: .* 'later'"),
                ("old_stop", {}, "takes different arguments: .*missing 1 required"),
                ("old_submit", {}, "does not accept all of it: .*unknown field `later`"),
            ):
                with pytest.raises(UnknownOperation, match=rule.format(operation, why)):
                    await link.request(operation, **arguments)
            with pytest.raises(
                TypeError, match="'int' object is not iterable"
            ):  # a bug is not reported as a version mismatch
                await link.request("broken")
            assert list(await link.request("machines", after=0.0)) == []  # the connection is still usable
            await link.close()
            await controller.close()

    asyncio.run(asyncio.wait_for(ask(), left_s()))


def test_a_message_that_cannot_be_followed_does_not_end_the_stream(tmp_path: Path) -> None:
    async def follow() -> None:
        security = Security.temporary()
        async with Scheduler(port=0, dashboard_address=":0", security=security, protocol="tls") as scheduler:
            request = ClusterRequest(name="c", jobs={"worker": 1}, keep=True)
            settings = ControllerSettings(request=request, token="0", runs=Mark.of(tmp_path), created=time.time())
            controller = Controller(settings)
            await controller.start(scheduler)
            answered = asyncio.Event()
            ops: list[str] = []

            def on_message(message: dict[str, Any]) -> None:
                ops.append(message["op"])
                if message["op"] == "pong":
                    answered.set()
                raise RuntimeError(message["op"])

            link = await Link.open(connection_to(scheduler.address, security), on_message, lambda: None)
            await asyncio.wait_for(answered.wait(), left_s())  # only a ping is answered with a pong
            assert ops[:2] == ["cluster", "attached"]
            assert link.silent_s == 0

            controller.viewers.tell_cluster = lambda: None  # type: ignore[method-assign]
            for viewer in controller.viewers._viewers:
                viewer.answer = lambda: None  # type: ignore[method-assign]
            while link.silent_s == 0:
                await asyncio.sleep(0.05)
            assert link.silent_s >= SILENT_S
            await link.close()
            await controller.close()

    asyncio.run(asyncio.wait_for(follow(), left_s()))
