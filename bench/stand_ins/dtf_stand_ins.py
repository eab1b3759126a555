"""A kind of cluster with any number of stand-ins for hosts, all in one process.

They respond as hosts do, and each task that is started on them only reports a metric every second. Everything that they
communicate with is real: the cluster process with its controller and store, and the viewers.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jupyter_dtf.backend.kinds.base import Kind
from jupyter_dtf.schema.api import FieldInfo

_SAMPLE_S = 0.004
_WRITE_EVERY = 250


class StandInKind(Kind):
    """The kind of cluster with stand-ins for hosts."""

    kind = "stand-ins"
    title = "Stand-ins"

    def fields(self) -> list[FieldInfo]:
        return [FieldInfo(name="hosts", title="Hosts", type="integer", default=10, minimum=1, maximum=10_000)]

    def hosts(self, options: Mapping[str, Any], jobs: Mapping[str, int]) -> int:
        """Return the number of Dask workers to start: 1, because one process simulates all hosts."""
        return 1

    async def create(self, options: Mapping[str, Any], security: Any, directory: Path) -> Any:
        from distributed import Scheduler
        from distributed.deploy.spec import ProcessInterface, SpecCluster

        if directory_of_profile := os.environ.get("STAND_INS_PROFILE"):
            _profile(Path(directory_of_profile) / "cluster.txt")
        files = {}
        for part, text in (("ca", security.tls_ca_file), ("cert", security.tls_worker_cert),
                           ("key", security.tls_worker_key)):  # fmt: skip
            path = files[part] = directory / f"{part}.pem"
            path.touch(mode=0o600)
            path.write_text(text)

        class Hosts(ProcessInterface):
            """The process that simulates all hosts."""

            def __init__(self, scheduler: str, name: object) -> None:
                super().__init__(scheduler=scheduler, name=name)
                self._scheduler = scheduler

            async def start(self) -> None:
                program = str(Path(__file__).with_name("stand_in_hosts.py"))
                command = [sys.executable, program, self._scheduler, str(options["hosts"]), *map(str, files.values())]
                output = os.environ.get("STAND_INS_LOG", os.devnull)
                with Path(output).open("ab") as log:  # noqa: ASYNC230  # a local file
                    self.process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)
                await super().start()

            async def close(self) -> None:
                with contextlib.suppress(ProcessLookupError):
                    self.process.kill()
                await self.process.wait()
                await super().close()

        scheduler = {
            "cls": Scheduler,
            "options": {"host": "127.0.0.1", "port": 0, "dashboard": False, "security": security},
        }

        return await SpecCluster(
            scheduler=scheduler,
            worker={"cls": Hosts, "options": {}},
            workers={},
            security=security,
            asynchronous=True,
        )


def _profile(path: Path) -> None:
    """Sample the main thread of this process, and write the results to ``path`` every second.

    These are the numbers of samples with each function at the top of the stack, and anywhere in it.
    """
    main = threading.main_thread().ident
    leaves: Counter[str] = Counter()
    within: Counter[str] = Counter()

    def look() -> None:
        for count in itertools.count(1):
            time.sleep(_SAMPLE_S)
            frame = sys._current_frames().get(main or 0)
            names = []
            while frame is not None:
                code = frame.f_code
                names.append(f"{code.co_filename.rpartition('site-packages/')[2][-60:]}:{code.co_name}")
                frame = frame.f_back
            leaves[names[0] if names else ""] += 1
            within.update(set(names))
            if count % _WRITE_EVERY == 0:
                lines = [f"{count} samples", *(f"{n:6} {name}" for name, n in leaves.most_common(40)), "-- within"]
                path.write_text("\n".join([*lines, *(f"{n:6} {name}" for name, n in within.most_common(90))]))

    threading.Thread(target=look, daemon=True).start()
