"""Dask's nanny on a host of the kind ``ssh``: ``python -m jupyter_dtf.backend.kinds.ssh_nanny``, started by the keeper.

Its settings are passed as JSON on standard input, because they include a private key.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import socket
import sys
from typing import Any

from ..machine import paths
from .base import NOTICE, NOTICES, SLOTS

ANSWER_S = 3.0
"""Seconds that a host may take to report whether it still has tasks."""
LOOK_S = 0.2


def check_reachable(address: str, timeout_s: float = 5.0) -> None:
    """Exit with an error message if this host cannot connect to the scheduler."""
    host, _, port = address.partition("://")[2].rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout_s).close()
    except OSError as error:
        sys.exit(
            f"This host cannot reach the cluster at {address} ({error}). Allow it through the firewall, or set another "
            "address (address) or network (interface)"
        )


async def serve(settings: dict[str, Any]) -> None:
    """Run the nanny until it is closed, or a signal arrives.

    After the first signal, the worker's tasks may leave before the nanny ends. A second signal ends it immediately.
    """
    import dask.config
    from distributed import Security

    from .dask_http import SilentNanny

    directory = paths.machine_dir(settings["token"])
    dask.config.update(dask.config.config, dask.config.deserialize(settings["dask"]))
    dask.config.set({"temporary-directory": str(directory)})
    nanny = SilentNanny(
        settings["scheduler"],
        name=settings["name"],
        nthreads=settings["threads"] or None,
        memory_limit=settings["memory_bytes"] or "auto",
        interface=settings["interface"] or None,
        resources={SLOTS: settings["tasks"]} if settings["tasks"] else None,
        security=Security(require_encryption=True, **settings["security"]),
        local_directory=str(directory),
        death_timeout=settings["patience_s"],
    )
    asked: asyncio.Queue[signal.Signals] = asyncio.Queue()
    for number in NOTICES:
        asyncio.get_running_loop().add_signal_handler(number, asked.put_nowait, number)
    async with nanny:
        first = asyncio.create_task(asked.get())
        await _first_of(first, asyncio.create_task(nanny.finished()))
        if first.done() and not first.cancelled():
            notice = asyncio.create_task(_give_notice(nanny, first.result().name))
            await _first_of(notice, asyncio.create_task(asked.get()))


async def _first_of(*tasks: asyncio.Task[Any]) -> None:
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


async def _give_notice(nanny: Any, why: str) -> None:
    """Notify the worker's host and wait until its tasks have left. The worker will not be restarted."""
    nanny.close_gracefully(reason=why)
    with contextlib.suppress(Exception):  # the worker is currently not a host, or does not respond
        while await asyncio.wait_for(getattr(nanny.rpc(nanny.worker_address), NOTICE)(why=why), ANSWER_S):
            await asyncio.sleep(LOOK_S)


def main() -> None:
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s %(message)s")
    settings = json.loads(sys.stdin.buffer.read())
    check_reachable(settings["scheduler"])
    asyncio.run(serve(settings))


if __name__ == "__main__":
    main()
