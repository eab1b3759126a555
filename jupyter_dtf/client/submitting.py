"""Submits a run to its cluster: creates the request and sends the program."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from ..backend.records import submission_files
from ..backend.viewer.background import off_loop
from ..errors import DtfError, InvalidInput
from ..schema import payload
from ..schema.cluster import FIRST_JOBS
from ..schema.origin import Origin
from ..schema.printable import is_whole, shown_path
from ..schema.run import RunInfo, RunRequest
from ..schema.run_options import RunOptions
from ..schema.strategy import Strategy
from .found_origin import keeps_code, origin_of
from .pickling import refusal
from .run import Run
from .session import session

if TYPE_CHECKING:
    from ..backend.viewer.fleet import Fleet

AnyRun = TypeVar("AnyRun", bound=Run)

ANSWER_S = 10.0
"""How long an interrupted submission waits to learn from the cluster whether it was accepted, in seconds."""


def request_of(options: RunOptions, *, origin: Origin | None = None, **more: Any) -> RunRequest:
    """Return the request for the cluster: the options, further fields of ``RunRequest`` (``more``), and the provenance.

    Code and design are left out if the user has turned off recording them. Raises InvalidInput.
    """
    here = os.getcwd()
    path = [entry or here for entry in sys.path if isinstance(entry, str) and is_whole(entry)]
    more["origin"] = origin or origin_of()
    if not keeps_code():
        more["code"], more["design"] = [], None
    if options.notify is not None:
        options = msgspec.structs.replace(options, notify=options.notify.for_cluster)
    return RunRequest(**msgspec.structs.asdict(options), sys_path=path, cwd=shown_path(here), **more)


def submit(
    cluster: str,
    request: RunRequest,
    program: tuple[Any, ...],
    make: Callable[[str], AnyRun],
    without_data: Callable[[], tuple[Any, ...]] | None = None,
) -> AnyRun:
    """Start a run and return ``make(run_id)``, possibly before its program has been sent.

    Waits until the cluster is ready. If the run writes checkpoints, its program is saved so that other processes can
    resume it; if the program is too large, ``without_data()`` is saved instead.
    """
    data = _packed(program)
    view = session()
    view.call(lambda fleet: fleet.ready(cluster))
    too_large = request.goes_on and data.size > submission_files.MOST_BYTES and without_data is not None
    rest = payload.packed(without_data()) if too_large and without_data is not None else None
    run = begun(lambda fleet, opened: fleet.submit(cluster, request, data, opened), make)
    if request.goes_on:
        sent = run.sent
        run.kept = view.begin(lambda fleet: _kept(sent, request, data, rest))
    return run


def _packed(program: tuple[Any, ...]) -> payload.Packed:
    """Pack a program for sending. Raises InvalidInput, which names the unpicklable object."""
    try:
        return payload.packed(program)
    except (DtfError, MemoryError, OSError):
        raise
    except Exception as error:
        function, arguments, named, *_ = (*program, (), {})
        raise refusal(error, function=function, arguments=arguments, named=named) from error


def begun(
    start: Callable[[Fleet, Callable[[RunInfo], object]], Coroutine[Any, Any, RunInfo]],
    make: Callable[[str], AnyRun],
) -> AnyRun:
    """Return the run that ``start(fleet, opened)`` starts, as soon as it calls ``opened`` with the run's description.

    If this is interrupted before the caller has the run, the run is stopped.
    """
    opened = Future[RunInfo]()
    sent = session().begin(lambda fleet: start(fleet, opened.set_result))
    try:
        wait((opened, sent), return_when=FIRST_COMPLETED)
        run = make((opened if opened.done() else sent).result().id)
    except BaseException:
        # The cluster may already have accepted the run, which the caller could not stop without its id.
        try:
            wait((opened, sent), ANSWER_S, return_when=FIRST_COMPLETED)
        finally:
            sent.cancel()
            accepted = opened if opened.done() else sent
            if not accepted.cancelled() and accepted.exception() is None:
                with contextlib.suppress(DtfError):  # the run has ended in the meantime
                    Run(accepted.result().id).stop()
        raise
    run.sent = sent
    return run


async def _kept(sent: Future[RunInfo] | None, request: RunRequest, program: payload.Packed, rest: Any) -> None:
    """Save the request and the program of a run, once the run has been sent."""
    assert sent is not None
    info = await asyncio.wrap_future(sent)
    await off_loop(lambda: submission_files.keep(Path(info.run_dir), request, program, rest))


def training_jobs(strategy: Strategy, jobs: Mapping[str, int]) -> dict[str, int]:
    """Return the number of tasks of each job that trains with a strategy. Raises InvalidInput if a job is missing."""
    training = {job: count for job, count in jobs.items() if job in strategy.jobs}
    if training.keys().isdisjoint(FIRST_JOBS):
        raise InvalidInput(f"`jobs` must include worker or chief for training, got {dict(jobs)!r}", field="jobs")
    if "ps" in strategy.jobs and "ps" not in training:
        raise InvalidInput(f"`jobs` must include ps for parameter servers, got {dict(jobs)!r}", field="jobs")
    return training
