"""A million lines (200 MB) printed by two tasks as fast as possible: the cost, and when a new viewer sees the end."""

from __future__ import annotations

import threading
import time

import psutil

import jupyter_dtf as dtf
from jupyter_dtf.client.session import Session, session
from jupyter_dtf.schema.events import Logged

from .table import Row

LINES = 500_000
"""The number of lines that each task prints, of 200 bytes each."""


def chatter(lines: int, ctx: dtf.Context) -> None:
    text = "x" * 185
    for first in range(0, lines, 1000):
        print("\n".join(f"{number:>13} {text}" for number in range(first, first + 1000)))


def ends(view: Session, run_id: str) -> set[str]:
    """Return the tasks whose last line a viewer has received."""
    last = str(LINES - 1)
    events = [event for _, event in view.hub.events(run_id) if isinstance(event, Logged) and event.lines]
    return {event.task for event in events if event.lines[-1].split()[0] == last}


class Longest:
    """Sends small requests to the cluster continually, and records the longest response time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self.seconds = 0.0

    def _ask(self) -> None:
        while not self._ended.wait(0.01):
            begin = time.perf_counter()
            session().call(lambda fleet: fleet.spec(self._name))
            self.seconds = max(self.seconds, time.perf_counter() - begin)

    def __enter__(self) -> Longest:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()


def measure() -> list[Row]:
    with dtf.Cluster(jobs={"worker": 2}) as cluster:
        cluster.run(chatter, 1000)  # so that everything is imported and running
        _ = cluster.spec
        pid = session().do(lambda fleet: fleet.connection(cluster.name)).pid
        process = psutil.Process(pid)
        watched = {"cluster process": process, "kernel": psutil.Process()}
        watched["Dask worker"] = next(
            child for child in process.children(recursive=True) if "spawn_main" in " ".join(child.cmdline())
        )
        before = {name: each.memory_info().rss for name, each in watched.items()}
        begin = time.perf_counter()
        with Longest(cluster.name) as longest:
            run = cluster.run(chatter, LINES, wait=False).wait()
        seconds = time.perf_counter() - begin
        grown = {name: (each.memory_info().rss - before[name]) / 1e6 for name, each in watched.items()}
        begin = time.perf_counter()
        fresh = Session()
        while ends(fresh, run.id) != {"worker:0", "worker:1"}:
            time.sleep(0.002)
        attached = time.perf_counter() - begin
        fresh.close()
        last = run.logs("worker", 1).rsplit("\n", 1)[1].split()[0]
        assert last == str(LINES - 1), last
    rows = [Row(f"200 MB printed: growth of {name}", f"{mb:.0f} MB", "", mb, "<=", 32) for name, mb in grown.items()]
    return [
        *rows,
        Row("200 MB printed: longest response time", f"{longest.seconds:.2f} s", "", longest.seconds, "<=", 0.5),
        Row("200 MB printed: total time", f"{seconds:.1f} s", "", seconds, "<=", 60),
        Row("a million lines: time until a new viewer sees the end", f"{attached:.2f} s", "", attached, "<=", 1),
    ]
