"""The plugin that is sent to an external Dask worker, tested with a stand-in for the worker."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

from distributed.diagnostics.plugin import WorkerPlugin

from jupyter_dtf._version import __version__
from jupyter_dtf.backend.cluster.external_scheduler import SentAsText

WORDS = {"problem": "dtf_problem-0", "farewell": "dtf_farewell-0"}


class FakeWorker:
    """The parts of a Dask worker that are used if it does not become a host."""

    def __init__(self) -> None:
        self.said: list[dict[str, Any]] = []
        self.batched_stream = self

    def send(self, message: dict[str, Any]) -> None:
        self.said.append(message)


def test_it_is_read_without_this_package_and_says_farewell() -> None:
    sent = pickle.dumps(SentAsText("jupyter_dtf-0", "9.9.9", WORDS, {}))
    assert b"jupyter_dtf.backend.host.external_worker" not in sent.split(b'"""', 1)[0], (
        "the module is not asked for by name"
    )
    visitor: Any = pickle.loads(sent)
    assert isinstance(pickle.loads(sent), WorkerPlugin)
    assert type(visitor).__module__ == "jupyter_dtf_visitor"
    worker = FakeWorker()
    asyncio.run(visitor.setup(worker))
    (problem,) = worker.said
    assert problem["op"] == "dtf_problem-0"
    assert problem["why"].startswith(f"it has jupyter_dtf {__version__} instead of 9.9.9: install that release")
    asyncio.run(visitor.teardown(worker))
    assert worker.said[1:] == [{"op": "dtf_farewell-0"}]


def test_it_raises_nothing_and_says_what_is_wrong() -> None:
    visitor = pickle.loads(pickle.dumps(SentAsText("jupyter_dtf-0", __version__, WORDS, {"nonsense": 1})))
    worker = FakeWorker()
    asyncio.run(visitor.setup(worker))
    (problem,) = worker.said
    assert problem["why"].startswith("KeyError: ")


def test_one_that_is_taken_away_while_it_is_set_up_makes_no_host() -> None:
    visitor = pickle.loads(pickle.dumps(SentAsText("jupyter_dtf-0", "9.9.9", WORDS, {})))
    worker = FakeWorker()

    async def come_and_go() -> None:
        coming = asyncio.create_task(visitor.setup(worker))
        await asyncio.sleep(0)
        await visitor.teardown(worker)
        await coming

    asyncio.run(come_and_go())
    assert worker.said == [{"op": "dtf_farewell-0"}]
