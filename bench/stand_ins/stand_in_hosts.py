"""Simulates hosts: ``python stand_in_hosts.py SCHEDULER COUNT CA CERT KEY``."""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from typing import Any

import msgspec
from distributed import Security
from distributed.batched import BatchedSend
from distributed.comm import connect
from distributed.core import Server, rpc

from jupyter_dtf.backend.host.host_report import SAMPLE_INTERVAL_S
from jupyter_dtf.backend.machine.versions import read_versions
from jupyter_dtf.schema import protocol
from jupyter_dtf.schema.base import to_plain
from jupyter_dtf.schema.events import Point, Points, TaskChanged, encode_event, encode_points
from jupyter_dtf.schema.launch import Outcome, TaskResult, TaskSpec
from jupyter_dtf.schema.machines import HostInfo
from jupyter_dtf.schema.run import TaskState

REPORT_S = 1.0
METRICS: dict[str, Any] = {
    "task_counts": {}, "bandwidth": {"total": 1e8, "workers": {}, "types": {}}, "digests_total_since_heartbeat": {},
    "managed_bytes": 0, "spilled_bytes": {"memory": 0, "disk": 0}, "event_loop_interval": 0.02, "cpu": 50.0,
    "memory": 1 << 30, "time": 0.0, "host_net_io": {"read_bps": 0.0, "write_bps": 0.0},
    "host_disk_io": {"read_bps": 0.0, "write_bps": 0.0}, "num_fds": 50,
    "transfer": dict.fromkeys(
        ["incoming_bytes", "incoming_count", "incoming_count_total", "outgoing_bytes", "outgoing_count",
         "outgoing_count_total"], 0,
    ),
}  # fmt: skip
"""The metrics that Dask's workers send with each heartbeat."""
AT_ONCE = 50
"""The number of hosts that connect to the scheduler at the same time."""


class StandIn(Server):
    """A Dask worker with our plugin, as far as the controller can tell."""

    def __init__(self, number: int, scheduler: str, security: Security, versions: dict[str, str]) -> None:
        self.number = number
        self._scheduler = scheduler
        self._arguments = security.get_connection_args("worker")
        self._listening = security.get_listen_args("worker")
        self._versions = versions
        self._runs: dict[str, dict[str, asyncio.Task[None]]] = {}
        self._stream = BatchedSend(interval="2ms", loop=None)
        handlers = {
            "dtf_prepare": self.ok,
            "dtf_reserve": self.reserve,
            "dtf_sees": self.sees,
            "dtf_launch": self.launch,
            "dtf_stop": self.end,
            "dtf_work_done": self.ok,
            "dtf_kill": self.end,
            "dtf_release": self.ok,
            "dtf_probe": self.probe,
            "dtf_dial": self.dial,
        }
        super().__init__(handlers, connection_args=self._arguments)

    async def begin(self) -> None:
        """Join the cluster."""
        await self.listen("tls://127.0.0.1:0", **self._listening)
        comm = await connect(self._scheduler, **self._arguments)
        await comm.write(
            {
                "op": "register-worker", "reply": False, "address": self.address, "status": "running", "nthreads": 1,
                "name": f"host-{self.number}", "now": time.time(), "resources": {}, "memory_limit": 8 << 30,
                "local_directory": "/", "services": {}, "nanny": None, "pid": 0, "versions": {}, "extra": {},
                "metrics": METRICS,
                "stimulus_id": f"stand-in-{self.number}", "server_id": self.id,
            }
        )  # fmt: skip
        response = await comm.read()
        assert response["status"] == "OK", response
        self._stream.start(comm)
        self._reading = asyncio.create_task(self._read(comm))
        self.tell({})
        self._living = [asyncio.create_task(self._live()), asyncio.create_task(self._beat())]

    async def _beat(self) -> None:
        """Send Dask's own heartbeats, at the interval that the scheduler requests."""
        scheduler = rpc(self._scheduler, connection_args=self._arguments)
        while True:
            told = await scheduler.heartbeat_worker(
                address=self.address, now=time.time(), metrics=METRICS, executing={}, extensions={}
            )
            await asyncio.sleep(told["heartbeat-interval"])

    async def _read(self, comm: Any) -> None:
        while True:
            await comm.read()

    async def _live(self) -> None:
        await asyncio.sleep(self.number % 100 / 100 * SAMPLE_INTERVAL_S)
        while True:
            await asyncio.sleep(SAMPLE_INTERVAL_S)
            self.tell(
                {
                    "cpu": 0.5, "memory_bytes": 1e9, "machine_cpu": 1.0, "machine_memory_bytes": 2e9,
                    "received_bytes_per_second": 1e3, "sent_bytes_per_second": 1e3,
                }
            )  # fmt: skip

    def tell(self, figures: dict[str, float]) -> None:
        """Send a host's description of itself, with these figures."""
        info = HostInfo(
            name=f"host-{self.number}",
            address=self.address,
            machine=f"machine-{self.number}",
            threads=1,
            memory_bytes=8 << 30,
            cpu=0.5,
            memory_used_bytes=1 << 30,
            warm=True,
        )
        alive = [f"{run}/{task}" for run, tasks in self._runs.items() for task in tasks]
        message = {
            "op": "dtf_host", "info": to_plain(info), "speech": to_plain(protocol.ours()), "versions": self._versions,
            "process": [0, 0], "warnings": [], "findings": [], "alive": alive, "figures": figures, "time": time.time(),
        }  # fmt: skip
        self._stream.send(message)

    # -- requests from the controller -----------------------------------------------------------------------------

    def ok(self, **message: Any) -> None:
        """Do nothing."""

    def probe(self, secret: str) -> str:
        return self.address.split("://")[1]

    def dial(self, places: dict[str, str], secret: str) -> dict[str, str]:
        return {}

    def sees(self, **message: Any) -> str:
        return ""

    def reserve(self, run_id: str, places: list[str], ready: bool) -> dict[str, str]:
        self._runs[run_id] = {}
        return dict.fromkeys(places, f"127.0.0.1:{20000 + self.number}")

    async def launch(self, run_id: str, specs: list[bytes], **message: Any) -> dict[str, str]:
        pids = {}
        for data in specs:
            spec = msgspec.json.decode(data, type=TaskSpec)
            self._runs[run_id][spec.task] = asyncio.get_running_loop().create_task(self._train(run_id, spec.task))
            pids[spec.task] = str(1000 + self.number)
        return pids

    async def _train(self, run_id: str, task: str) -> None:
        """Run a task, which reports a metric every second."""
        self._event(run_id, encode_event(TaskChanged(time=time.time(), task=task, state=TaskState.RUNNING)))
        due, step = time.time() + self.number % 97 / 97 * REPORT_S, 0
        while True:
            await asyncio.sleep(max(0.0, due - time.time()))  # a task that is late catches up
            data = encode_points([Point(step, due, {"loss": 1 / (1 + step)})])
            points = Points(time=due, task=task, first=step, count=1, data=data)
            self._event(run_id, encode_event(points))
            due, step = due + REPORT_S, step + 1

    def end(self, run_id: str, **message: Any) -> None:
        for task, running in self._runs.pop(run_id, {}).items():
            running.cancel()
            result = msgspec.msgpack.encode(TaskResult(task=task, outcome=Outcome(ok=True)))
            self._stream.send({"op": "dtf_ended", "run_id": run_id, "task": task, "result": result})

    def _event(self, run_id: str, data: bytes) -> None:
        self._stream.send({"op": "dtf_event", "run_id": run_id, "data": data})


async def main(scheduler: str, count: int, ca: str, cert: str, key: str) -> None:
    """Simulate ``count`` hosts until killed."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    security = Security(
        require_encryption=True, tls_ca_file=ca, tls_worker_cert=cert, tls_worker_key=key, tls_client_cert=cert,
        tls_client_key=key,
    )  # fmt: skip
    versions = read_versions()
    turn = asyncio.Semaphore(AT_ONCE)
    hosts = [StandIn(number, scheduler, security, versions) for number in range(count)]

    async def begin(host: StandIn) -> None:
        async with turn:
            await host.begin()

    await asyncio.gather(*map(begin, hosts))
    print(f"{count} hosts have joined the cluster", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    address, number, *files = sys.argv[1:]
    asyncio.run(main(address, int(number), *files))
