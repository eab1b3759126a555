"""Runs Dask's worker in a batch job, where the job script starts it, or in a pod of the kind ``kubernetes``.

This process starts the same nanny as the kind ``ssh``, and ends it in the same way, so that nothing is left running on
the node.
"""

from __future__ import annotations

import argparse
import json
import secrets
import signal
import sys
import threading

from ..machine import cluster_processes
from . import ssh_keeper, ssh_nanny
from .base import NOTICES


def parse(argv: list[str]) -> argparse.Namespace:
    """Parse the arguments that dask-jobqueue passes to a worker, and the path of the settings file."""
    parser = argparse.ArgumentParser(prog="job_worker", allow_abbrev=False)
    parser.add_argument("scheduler")
    parser.add_argument("--name", required=True)
    parser.add_argument("--nthreads", type=int, required=True)
    parser.add_argument("--memory-limit", required=True)
    parser.add_argument("--death-timeout", type=float, default=60.0)
    parser.add_argument("--interface", default="")
    parser.add_argument("--protocol", default="tls://")
    parser.add_argument("--settings", required=True, help="a file written by the cluster, with its certificates")
    return parser.parse_args(argv)


def main(argv: list[str]) -> None:
    """Run Dask's nanny until it ends, or the batch system ends the job."""
    # Problems are detected before signal handlers are set, so that this process exits with the error message.
    asked = parse(argv)
    try:
        with open(asked.settings) as file:
            settings = json.load(file)
    except OSError as error:
        sys.exit(
            f"This node cannot read {asked.settings} ({error.strerror}): the cluster is closed, or the directory is "
            "not shared with the nodes (shared_directory)"
        )
    ssh_nanny.check_reachable(asked.scheduler)
    leaving = threading.Event()
    started: list[ssh_keeper.Nanny] = []

    def notice(number: int, frame: object) -> None:
        """Forward the first notice to the nanny, which ends once its tasks have left. The next notice ends the job."""
        if not started or leaving.is_set() or noticed.is_set():
            leaving.set()
        else:
            noticed.set()
            started[0].process.send_signal(number)

    noticed = threading.Event()
    for each in (signal.SIGINT, signal.SIGHUP):
        signal.signal(each, lambda *_: leaving.set())
    for each in NOTICES:
        signal.signal(each, notice)
    mine = secrets.token_hex(8)
    settings |= {
        "scheduler": asked.scheduler,
        "name": asked.name,
        "threads": asked.nthreads,
        "memory_bytes": asked.memory_limit,
        "interface": asked.interface,
        "patience_s": asked.death_timeout,
    }
    token = settings["token"]
    environment = {cluster_processes.VARIABLE: token, ssh_keeper.KEEPER: mine}
    nanny = ssh_keeper.start({"module": ssh_nanny.__name__, "settings": settings, "environment": environment})

    started.append(nanny)

    def wait() -> None:
        nanny.process.wait()
        leaving.set()

    threading.Thread(target=wait, daemon=True).start()
    leaving.wait()
    status = nanny.process.poll()
    ssh_keeper.end(nanny, token, mine)
    if status:
        sys.exit(nanny.words().strip()[-4000:])
    # Otherwise the nanny did not fail, and the batch system's message, if any, should be the last output.


if __name__ == "__main__":
    main(sys.argv[1:])
