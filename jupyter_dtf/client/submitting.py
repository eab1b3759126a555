"""A run on its way to its cluster: what is asked for, and the program that is sent."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, TypeVar

import msgspec

from ..errors import InvalidInput
from ..schema import payload
from ..schema.cluster import FIRST_JOBS
from ..schema.printable import is_whole, shown_path
from ..schema.run import RunInfo, RunRequest
from ..schema.run_options import RunOptions
from ..schema.strategy import Strategy
from .run import Run
from .session import session

AnyRun = TypeVar("AnyRun", bound=Run)


def request_of(options: RunOptions, **more: Any) -> RunRequest:
    """What is asked of the cluster: the options, ``more`` of ``RunRequest``, and where this process is."""
    here = os.getcwd()
    path = [entry or here for entry in sys.path if isinstance(entry, str) and is_whole(entry)]
    return RunRequest(**msgspec.structs.asdict(options), sys_path=path, cwd=shown_path(here), **more)


def submit(cluster: str, request: RunRequest, program: tuple[Any, ...], make: Callable[[str], AnyRun]) -> AnyRun:
    """Start a run: ``make(its id)``, whose program may still be on its way. Waits until the cluster is ready."""
    data = payload.packed(program)
    view, opened = session(), Future[RunInfo]()
    view.call(lambda fleet: fleet.ready(cluster))
    sent = view.begin(lambda fleet: fleet.submit(cluster, request, data, opened.set_result))
    try:
        wait((opened, sent), return_when=FIRST_COMPLETED)
        run = make((opened if opened.done() else sent).result().id)
    except BaseException:
        sent.cancel()
        raise
    run.sent = sent
    return run


def training_jobs(strategy: Strategy, jobs: Mapping[str, int]) -> dict[str, int]:
    """The tasks that take part in training under a strategy. Raises InvalidInput where one is missing."""
    training = {job: count for job, count in jobs.items() if job in strategy.jobs}
    if training.keys().isdisjoint(FIRST_JOBS):
        raise InvalidInput(f"Training needs a job worker or chief. Received: {dict(jobs)!r}", field="jobs")
    if "ps" in strategy.jobs and "ps" not in training:
        raise InvalidInput(f"Parameter servers need a job ps. Received: {dict(jobs)!r}", field="jobs")
    return training
