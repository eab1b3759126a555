"""Dask's scheduler in a pod: ``python -m jupyter_dtf.backend.kinds.pod_scheduler --host IP --settings FILE``."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import signal
import sys
from typing import Any

from ..machine import paths
from . import kubernetes_spec, pod_health


async def serve(host: str, settings: dict[str, Any]) -> None:
    """Run the scheduler until SIGTERM arrives."""
    import dask.config
    from distributed import Security

    from .dask_http import SilentScheduler

    dask.config.update(dask.config.config, dask.config.deserialize(settings["dask"]))
    dask.config.set({"temporary-directory": str(paths.machine_dir(settings["token"]))})
    given = settings["security"]
    certificates = {f"tls_{role}_{part}": given[f"tls_worker_{part}"] for role in _ROLES for part in ("cert", "key")}
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, asked.set)
    async with SilentScheduler(
        host=host,
        port=kubernetes_spec.COMM_PORT,
        protocol="tls",
        dashboard=False,
        security=Security(require_encryption=True, tls_ca_file=given["tls_ca_file"], **certificates),
    ) as scheduler:

        def look() -> None:
            if not scheduler.plugins.keys() & {_CONTROLLER}:  # the cluster process ended before it installed one
                pod_health.forget()

        loop.call_later(kubernetes_spec.FORGOTTEN_S, look)
        answering = pod_health.listen(host, kubernetes_spec.HTTP_PORT)
        try:
            await asked.wait()
        finally:
            await asyncio.to_thread(answering.shutdown)
            answering.server_close()


_ROLES = ("client", "scheduler", "worker")
_CONTROLLER = "jupyter_dtf"


def main(argv: list[str]) -> None:
    """Run the scheduler with the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="pod_scheduler", allow_abbrev=False)
    parser.add_argument("--host", required=True)
    parser.add_argument("--settings", required=True)
    asked = parser.parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s %(message)s")
    with open(asked.settings) as file:
        settings = json.load(file)
    asyncio.run(serve(asked.host, settings))


if __name__ == "__main__":
    main(sys.argv[1:])
