"""Accepts runs for a cluster: checks a run's request and receives its program."""

from __future__ import annotations

import contextlib
import logging
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from distributed.comm.core import Comm
from distributed.core import Status

from ..._version import __version__
from ...errors import DtfError, GangIncomplete, Unavailable
from ...schema.base import convert_request, to_plain
from ...schema.cluster import check_jobs
from ...schema.events import Submitted
from ...schema.run import RunDescriptor, RunRequest, cluster_id
from ..machine import paths
from ..planning.check_design import drawn
from .active_run import Run
from .cluster_runs import Runs
from .program_transfer import ProgramTransfer
from .run_queue import check_fits
from .saving_warning import SavingWarning
from .settings import ControllerSettings
from .task_assignment import TaskAssignment

logger = logging.getLogger(__name__)


class Submission:
    """Accepts runs until it is closed, and calls ``begin(run, transfer)`` for each of them."""

    def __init__(
        self,
        settings: ControllerSettings,
        assignment: TaskAssignment,
        runs: Runs,
        warning: SavingWarning,
        begin: Callable[[Run, ProgramTransfer], None],
    ) -> None:
        self._settings = settings
        self._assignment = assignment
        self._runs = runs
        self._warning = warning
        self._begin = begin
        self._is_closed = False

    def close(self) -> None:
        """Stop accepting runs, because the cluster is closing."""
        self._is_closed = True

    def submit(self, request: bytes, payload: bytes) -> dict[str, Any]:
        """Accept a run. Returns its descriptor immediately; everything that follows is reported by events."""
        run = self._accept(request)
        self._begin(run, ProgramTransfer(payload))
        return dict(to_plain(run.info.descriptor))

    async def send(self, comm: Comm, request: bytes, size: int, **unknown: object) -> Status:
        """Accept a run whose program is too large for a message and arrives on this connection (``program_transfer``).

        Args:
            comm: The connection.
            request: The encoded ``RunRequest``.
            size: The size of the program in bytes.
            unknown: Arguments of newer viewers; a request that has any is refused.
        """
        token = self._settings.token
        try:
            if unknown:
                raise Unavailable(
                    f"The cluster {self._settings.name} (jupyter_dtf {__version__}) does not understand how another "
                    f"version sends a program ({', '.join(unknown)}). Close the cluster and start it again"
                )
            transfer = ProgramTransfer.to_come(
                size, lambda: paths.shared_memory_dir(token), lambda: paths.machine_dir(token)
            )
            try:
                run = self._accept(request)
            except BaseException:
                transfer.remove()
                raise
        except Exception as error:  # the sender waits for a reply, which Dask does not send here
            if not isinstance(error, DtfError):
                logger.exception("A run could not be accepted")
                error = Unavailable(f"The cluster could not accept the run: {type(error).__name__}: {error}")
            await comm.write({"error": type(error).__name__, "message": str(error)})
            return Status.dont_reply
        self._begin(run, transfer)
        with contextlib.suppress(OSError):  # the client is already gone, which the next read detects
            await comm.write({"ok": to_plain(run.info.descriptor), "places": transfer.places})
        await transfer.receive(comm, run)
        return Status.dont_reply

    def _accept(self, request: bytes) -> Run:
        reader = f"The cluster {self._settings.name}"
        wanted = convert_request(msgspec.msgpack.decode(request), RunRequest, reader)
        self._settings.defaults.complete(wanted)
        jobs = check_jobs(wanted.jobs or self._assignment.jobs)
        if self._is_closed:
            raise GangIncomplete("The cluster is closing")
        if self._assignment.has_all_hosts:
            self._assignment.plan(jobs, wanted)  # raises if something is missing
            if wanted.places:
                check_fits(self._assignment, jobs, wanted.places, wanted.place_shares)
        run_id = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
        descriptor = RunDescriptor(
            id=run_id,
            name=wanted.name or wanted.kind,
            cluster=self._settings.name,
            kind=wanted.kind,
            strategy=wanted.strategy,
            jobs=jobs,
            created=time.time(),
            parameters=wanted.parameters,
            run_dir=str(Path(self._settings.runs_dir) / run_id),
            goes_on=wanted.goes_on,
            resumed_from=wanted.resumed_from,
            origin=wanted.origin,
            trial=wanted.trial,
            cluster_id=cluster_id(self._settings.token),
        )
        run = self._runs.add(descriptor, wanted)
        design = wanted.design or drawn(self._settings.request)
        if wanted.code or design is not None:
            run.record(Submitted(time=descriptor.created, code=wanted.code, design=design))
        self._warning.tell(run)
        return run
