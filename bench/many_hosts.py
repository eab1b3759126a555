"""A gang of 1,000 tasks on 1,000 hosts, compared with one of 100: its start, a metric per task per second, its stop.

Hosts and tasks are stand-ins (``stand_ins/``) in a separate process. The cluster process with its controller, the
store, the links, and a Jupyter server with a page that shows the run are real.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from .table import Row

COUNTS = (100, 1000)
SECONDS = 20.0
REPORT_S = 1.0
SETTLE_S = 5.0
LIMIT_S = 120.0
STAND_INS = Path(__file__).with_name("stand_ins")
_TOKEN = "bench"
_WIDTH = 600


def measure() -> list[Row]:
    found = {count: _of(count) for count in COUNTS}
    few, many = (found[count] for count in COUNTS)
    n = COUNTS[-1]
    per_host = [(each["cluster_cores"] + each["server_cores"]) / count for count, each in found.items()]
    start, stop = many["start_s"], many["stop_s"]
    return [
        Row(f"a gang on {n:,} hosts starts", f"{start:.2f} s", f"{few['start_s']:.2f} s with 100", start, "<=", 10),
        Row(f"fraction of {n:,} metrics per second that arrives", f"{many['carried']:.3f}", f"{few['carried']:.3f}",
            many["carried"], ">=", 0.99),
        Row("cores of the cluster process", f"{many['cluster_cores']:.2f}", f"{few['cluster_cores']:.2f} with 100",
            many["cluster_cores"], "<=", 1),
        Row("cores of the server, with one page open", f"{many['server_cores']:.2f}",
            f"{few['server_cores']:.2f} with 100", many["server_cores"], "<=", 1),
        Row("both, CPU time per host", f"{per_host[1] * 1e3:.2f} ms/s", f"{per_host[0] * 1e3:.2f} ms/s with 100",
            per_host[1] / per_host[0], "<=", 1.2),
        Row("the gang stops", f"{stop:.2f} s", f"{few['stop_s']:.2f} s with 100", stop, "<=", 5),
    ]  # fmt: skip


def _of(count: int) -> dict[str, float]:
    """Return the measurements with ``count`` hosts.

    They are made in a new process, so that they do not affect the next ones.
    """
    with tempfile.TemporaryDirectory(prefix="many-") as directory:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(STAND_INS), os.environ.get("PYTHONPATH", "")])),
            "JUPYTER_RUNTIME_DIR": f"{directory}/runtime",
            "JUPYTER_DATA_DIR": f"{directory}/data",
            "JUPYTER_DTF_DATA_DIR": f"{directory}/dtf",
        }
        command = [sys.executable, "-m", "bench.many_hosts", str(count)]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _program(ctx: Any) -> None:
    """The program that the stand-ins pretend to run."""


def _measured(count: int) -> dict[str, float]:
    import jupyter_dtf as dtf
    from jupyter_dtf.backend.viewer import connections
    from jupyter_dtf.client.session import session

    found: dict[str, float] = {}
    with dtf.Cluster({"worker": count}, backend="stand-ins", hosts=count) as cluster, _server() as server:
        cluster.wait_ready()
        begun = time.perf_counter()
        _until(lambda: len(cluster.info.hosts) == count)
        found["hosts_s"] = time.perf_counter() - begun
        time.sleep(SETTLE_S)
        begun = time.perf_counter()
        run = cluster.run(_program, wait=False)
        _until(lambda: run.status == "running")
        found["start_s"] = time.perf_counter() - begun
        with server.page(run.id) as page:
            time.sleep(SETTLE_S)
            processes = {"cluster": psutil.Process(connections.read(cluster.name).pid), "server": server.process}
            before, points = {name: _cpu(each) for name, each in processes.items()}, _points(session().hub, run.id)
            begun = time.perf_counter()
            time.sleep(SECONDS)
            seconds = time.perf_counter() - begun
            for name, each in processes.items():
                found[f"{name}_cores"] = (_cpu(each) - before[name]) / seconds
            found["carried"] = (_points(session().hub, run.id) - points) / seconds / count
            found["late_s"] = _late_s(session().hub, run.id)
            found["page_bytes_per_second"] = page.received / (time.perf_counter() - page.since)
        begun = time.perf_counter()
        run.stop()
        _until(lambda: run.status in ("stopped", "succeeded", "failed"))
        found["stop_s"] = time.perf_counter() - begun
        others = [child for child in processes["cluster"].children() if "stand_in_hosts" in str(child.cmdline())]
        found["stand_ins_cores"] = sum(map(_cpu, others)) / (time.time() - others[0].create_time()) if others else 0.0
        found["cluster_bytes"] = float(processes["cluster"].memory_info().rss)
        found["server_bytes"] = float(server.process.memory_info().rss)
    return found


def _points(hub: Any, run_id: str) -> int:
    return sum(len(series) for (metric, _), series in hub.record(run_id).series.items() if metric == "loss")


def _late_s(hub: Any, run_id: str) -> float:
    """Return the median age of the tasks' last points, less half of the interval at which they report."""
    now = time.time()
    series = [each for (metric, _), each in hub.record(run_id).series.items() if metric == "loss"]
    return statistics.median(now - float(each.time[-1]) for each in series) - REPORT_S / 2


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _until(holds: Any) -> None:
    limit = time.monotonic() + LIMIT_S
    while not holds():
        if time.monotonic() > limit:
            raise TimeoutError(f"The condition was not met within {LIMIT_S:g} s")
        time.sleep(0.02)


class _Page:
    """A client that receives the same data as a browser page that shows a run."""

    def __init__(self, port: int, run_id: str) -> None:
        self.received = 0
        self.since = time.perf_counter()
        self._url = f"ws://127.0.0.1:{port}/jupyter-dtf/api/events?token={_TOKEN}&protocol=1&oldest=1"
        self._subscribe = json.dumps({"type": "subscribe", "run": run_id, "width": _WIDTH, "metrics": ["loss"]})
        self._ready, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._look()), daemon=True)

    def __enter__(self) -> _Page:
        self._thread.start()
        if not self._ready.wait(LIMIT_S):
            raise TimeoutError("The server did not respond to the page")
        self.since = time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join(10)

    async def _look(self) -> None:
        from tornado.websocket import websocket_connect

        connection = await websocket_connect(self._url, max_message_size=1 << 30)
        await connection.write_message(self._subscribe)
        while not self._over.is_set():
            message = await connection.read_message()
            if message is None:
                return
            self.received += len(message)
            self._ready.set()
        connection.close()


class _Server:
    def __init__(self, port: int, process: psutil.Process) -> None:
        self.port = port
        self.process = process

    def page(self, run_id: str) -> _Page:
        return _Page(self.port, run_id)


@contextmanager
def _server() -> Iterator[_Server]:
    """Run a Jupyter server with the extension within the context."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        sys.executable, "-m", "jupyter_server", f"--ServerApp.port={port}", "--ServerApp.ip=127.0.0.1",
        "--ServerApp.open_browser=False", f"--IdentityProvider.token={_TOKEN}", "--ServerApp.allow_root=True",
        "--ServerApp.jpserver_extensions={'jupyter_dtf': True}",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _until(lambda: _answers(port))
        yield _Server(port, psutil.Process(process.pid))
    finally:
        process.terminate()
        process.wait()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    print(json.dumps(_measured(int(sys.argv[1]))))
