"""A Dask scheduler and workers that somebody else runs: they are started with Dask's own commands and inspected from
outside.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cloudpickle
from distributed import Client, Security

from jupyter_dtf import tensorflow_chatter
from jupyter_dtf.backend.cluster.certificates import temporary_security
from tests.python import patience

# The scheduler and the workers need not be able to import the functions that run there.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

STARTER = "import sys; from distributed.cli.dask_{0} import main; sys.argv[0] = 'dask {0}'; main()"
WITHOUT_SERVER = ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"]


class ForeignDask:
    """A scheduler and its workers, with a separate directory. With certificates if ``tls``."""

    def __init__(self, directory: Path, *, tls: bool) -> None:
        self._directory = directory
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.files: dict[str, str] = {}
        self._flags: list[str] = []
        security = None
        if tls:
            self.files = self.certificates(directory)
            ca, cert, key = self.files.values()
            self._flags = ["--tls-ca-file", ca, "--tls-cert", cert, "--tls-key", key]
            security = Security(tls_ca_file=ca, tls_client_cert=cert, tls_client_key=key, require_encryption=True)
        address = directory / "address"
        protocol = ["--protocol", "tls"] if tls else []
        told = ["--scheduler-file", str(address)]
        self._start("scheduler", ["--host", "127.0.0.1", "--port", "0", *protocol, *told])
        patience.until(lambda: address.exists() and address.read_text().endswith("}"), "the scheduler's address")
        self.address: str = json.loads(address.read_text())["address"]
        self.client = Client(self.address, security=security, set_as_default=False)

    @property
    def options(self) -> dict[str, Any]:
        """The options of the kind ``address``."""
        return {"address": self.address, **self.files}

    @staticmethod
    def certificates(directory: Path) -> dict[str, str]:
        """Create files with a certificate authority, and with a certificate and its key. Return their paths as options
        of the kind ``address``.
        """
        made: Any = temporary_security()
        files = {"ca_file": made.tls_ca_file, "cert_file": made.tls_client_cert, "key_file": made.tls_client_key}
        for name, text in files.items():
            (directory / f"{name}.pem").write_text(text)
        return {name: str(directory / f"{name}.pem") for name in files}

    def _start(self, name: str, arguments: Sequence[str], **environment: str) -> None:
        what = "scheduler" if name == "scheduler" else "worker"
        interpreter = [sys.executable, "-S"] if environment else [sys.executable]
        somebody_elses = {key: value for key, value in os.environ.items() if key != tensorflow_chatter.VARIABLE}
        with (self._directory / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [*interpreter, "-c", STARTER.format(what), *arguments, *WITHOUT_SERVER, *self._flags],
                cwd=self._directory,
                env={**somebody_elses, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def start_worker(self, name: str, *, has_package: bool = True) -> None:
        """Start ``dask worker``, with or without jupyter_dtf installed, and wait until the scheduler knows it."""
        environment = {} if has_package else {"PYTHONPATH": str(self._without_package())}
        flags = ["--name", name, "--host", "127.0.0.1", "--nthreads", "1", "--no-nanny"]
        self._start(name, [self.address, *flags], **environment)
        patience.until(lambda: name in self.workers, lambda: f"the worker {name}: {self.log(name)}")

    def _without_package(self) -> Path:
        """Return a directory with everything that is installed here, except this package."""
        bare = self._directory / "bare"
        if not bare.exists():
            bare.mkdir()
            for entry in Path(sysconfig.get_paths()["purelib"]).iterdir():
                if "jupyter_dtf" not in entry.name:
                    (bare / entry.name).symlink_to(entry)
        return bare

    @property
    def workers(self) -> dict[str, int]:
        """The process ids of the scheduler's workers, keyed by the workers' names."""
        found: dict[str, int] = self.client.run_on_scheduler(workers_of)
        return found

    def log(self, name: str) -> str:
        return (self._directory / f"{name}.log").read_text(errors="replace")

    def signal(self, name: str, number: signal.Signals) -> None:
        self._processes[name].send_signal(number)

    def state(self) -> dict[str, Any]:
        """Return everything in the scheduler, and in the workers, keyed by name, that clusters could leave behind."""
        scheduler: dict[str, Any] = self.client.run_on_scheduler(state_of)
        workers = self.client.run(state_of).values()
        return {"scheduler": scheduler, **{worker["name"]: worker for worker in workers}}

    def stop(self, name: str) -> None:
        process = self._processes.pop(name)
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait()

    def close(self) -> None:
        self.client.close()
        for name in reversed(list(self._processes)):  # Dask's workers may hang if their scheduler ends first
            self.stop(name)


def workers_of(dask_scheduler: Any) -> dict[str, int]:
    return {str(worker.name): worker.pid for worker in dask_scheduler.workers.values()}


def state_of(dask_scheduler: Any = None, dask_worker: Any = None) -> dict[str, Any]:
    """Return what others could have added to a scheduler or a worker."""
    server = dask_scheduler or dask_worker
    kept = ("handlers", "stream_handlers", "plugins", "worker_plugins", "extensions", "services")
    return {
        "name": str(getattr(server, "name", "scheduler")),
        **{name: sorted(map(str, getattr(server, name, ()))) for name in kept},
        "environment": sorted(os.environ),
        "finders": [str(finder) for finder in sys.meta_path],
    }
