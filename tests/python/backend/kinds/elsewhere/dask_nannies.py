"""A kind of cluster in a separate package: Dask's own command, ``dask worker``, starts each host on this machine.

It uses nothing of jupyter_dtf except the interface of kinds.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jupyter_dtf.backend.kinds.base import Kind
from jupyter_dtf.schema.api import FieldInfo


class NannyKind(Kind):
    kind = "nannies"
    title = "Dask workers by their command line"

    def fields(self) -> list[FieldInfo]:
        return [
            FieldInfo(name="workers_per_host", title="Tasks per host", type="integer", default=2, minimum=1),
            FieldInfo(name="threads", title="Threads per host", type="integer", default=1, minimum=1),
        ]

    def hosts(self, options: Mapping[str, Any], jobs: Mapping[str, int]) -> int:
        return -(-sum(jobs.values()) // int(options["workers_per_host"]))

    async def create(self, options: Mapping[str, Any], security: Any, directory: Path) -> Any:
        import asyncio
        from asyncio.subprocess import Process

        from distributed import Scheduler
        from distributed.deploy.spec import ProcessInterface, SpecCluster

        flags = ["--nthreads", str(options["threads"]), "--host", "127.0.0.1", "--local-directory", str(directory)]
        for flag, text in [
            ("--tls-ca-file", security.tls_ca_file),
            ("--tls-cert", security.tls_worker_cert),
            ("--tls-key", security.tls_worker_key),
        ]:
            path = directory / f"{flag.strip('-')}.pem"
            path.touch(mode=0o600)
            path.write_text(text)
            flags += [flag, str(path)]

        class Nanny(ProcessInterface):
            """A process of ``dask worker``, which starts a nanny and its worker."""

            process: Process

            def __init__(self, address: str, name: object) -> None:
                super().__init__(scheduler=address, name=name)
                self._command = [sys.executable, "-P", "-m", "distributed.cli.dask_worker", address, *flags]
                self._command += ["--name", f"nanny-{name}"]
                if sys.version_info < (3, 11):
                    self._command.remove("-P")

            async def start(self) -> None:
                self.process = await asyncio.create_subprocess_exec(*self._command, stdin=asyncio.subprocess.DEVNULL)
                await super().start()

            async def close(self) -> None:
                with contextlib.suppress(ProcessLookupError):
                    self.process.terminate()
                await self.process.wait()
                await super().close()

        os.environ["DASK_DISTRIBUTED__WORKER__DAEMON"] = "False"  # a daemon could not start the processes of tasks
        return await SpecCluster(
            workers={},
            scheduler={
                "cls": Scheduler,
                "options": {"host": "127.0.0.1", "dashboard": False, "dashboard_address": ":0", "security": security},
            },
            worker={"cls": Nanny, "options": {}},
            security=security,
            asynchronous=True,
        )
