"""The addresses of the tasks of a run with parameter servers, and connections to them."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

from .....errors import InvalidInput, Unavailable
from .....schema.cluster import FIRST_JOBS, split_endpoint
from . import wire

_REACH_S = 60.0
_RETRY_S = 0.01  # there is no notification when another process starts to listen


class Places:
    """The tasks of a run from the point of view of one task. Ranks count the training tasks first, then the servers."""

    def __init__(self, ctx: Any) -> None:
        self._ctx = ctx
        jobs = [task.partition(":")[0] for task in ctx.tasks]
        self.workers = [task for task, job in zip(ctx.tasks, jobs, strict=True) if job in FIRST_JOBS]
        """Short names of the training tasks, in rank order."""
        self.servers = [task for task, job in zip(ctx.tasks, jobs, strict=True) if job == "ps"]
        if not self.servers or len(self.workers) + len(self.servers) < ctx.size:
            raise InvalidInput(
                "`jobs` must be chief, worker or ps, with at least one ps task, under parameter servers, got "
                f"{sorted(set(jobs))}",
                field="jobs",
            )
        self.server = ctx.rank - len(self.workers)
        """The index of this server; negative for a worker."""
        self._endpoints = list(ctx.cluster_spec.jobs["ps"].values())
        self.secret = bytes.fromhex(ctx.secret)

    def listen(self) -> list[socket.socket]:
        """Return this server's sockets: one for tasks on this machine, and one for tasks on other machines."""
        listeners = [wire.listen(self._path(self.server))]
        if len(set(self._ctx.machines)) > 1:
            listeners.append(wire.listen_on_port(*split_endpoint(self._endpoints[self.server])))
        return listeners

    def reach(self, server: int) -> wire.Channel:
        """Wait until a server listens, and return a channel to it.

        Raises Unavailable if the server does not listen within a minute. A task that replaces a lost one does not wait
        for the server.
        """
        end = time.monotonic() + (0 if self._ctx.rejoins else _REACH_S)
        address: Path | tuple[str, int]
        address = self._path(server) if self.shares_memory(server) else split_endpoint(self._endpoints[server])
        while True:
            try:
                return wire.connect(address, self.secret)
            except (ConnectionRefusedError, FileNotFoundError):
                if time.monotonic() > end:
                    after = "any more" if self._ctx.rejoins else f"after {_REACH_S:g} s"
                    raise Unavailable(f"{self.servers[server]} is not listening {after}") from None
                time.sleep(_RETRY_S)

    def shares_memory(self, server: int) -> bool:
        """Return whether this task is on the server's machine."""
        machines = self._ctx.machines
        return bool(machines[self._ctx.rank] == machines[len(self.workers) + server])

    def files(self, server: int, worker: int) -> tuple[Path, Path]:
        """Return the file for payloads to the worker, and the one for payloads to the server."""
        name = f"ps-{server}-{worker}"
        return self._ctx.shared_dir / f"{name}-down", self._ctx.shared_dir / f"{name}-up"

    def _path(self, server: int) -> Path:
        return Path(self._ctx.shared_dir) / f"ps-{server}"


class AmongWorkers:
    """A wrapper of ``ctx`` for the training tasks, in which ``size`` and ``shard`` exclude the ``ps`` tasks."""

    def __init__(self, ctx: Any, size: int) -> None:
        self._ctx = ctx
        self.size = size

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)

    def shard(self, dataset: Any) -> Any:
        return dataset.shard(self.size, self._ctx.rank)
