"""Runs: list, look, stop, delete, their events and points."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jupyter_server.auth.decorator import authorized
from tornado import web

from .base import Handler
from .feed import events_message

if TYPE_CHECKING:
    from ..backend.metrics.series import Series

_ROWS_AT_ONCE = 5000


class RunsHandler(Handler):
    @web.authenticated
    @authorized
    async def get(self) -> None:
        hub = await self.services.hub()
        self.answer(await asyncio.to_thread(hub.runs))


class RunHandler(Handler):
    @web.authenticated
    @authorized
    async def get(self, run_id: str) -> None:
        hub = await self.services.hub()
        self.answer(await asyncio.to_thread(hub.info, run_id))

    @web.authenticated
    @authorized
    async def delete(self, run_id: str) -> None:
        hub = await self.services.hub()
        await asyncio.to_thread(hub.delete, run_id)
        self.done()


class StopHandler(Handler):
    @web.authenticated
    @authorized
    async def post(self, run_id: str) -> None:
        await (await self.services.fleet()).stop_run(run_id)
        self.done(202)


class RunEventsHandler(Handler):
    @web.authenticated
    @authorized
    async def get(self, run_id: str) -> None:
        after = self.query_int("after", -1)
        hub = await self.services.hub()
        self.answer(await asyncio.to_thread(events_message, hub, run_id, after))


class MetricsHandler(Handler):
    """Every point of a run, as a table to download."""

    @web.authenticated
    @authorized
    async def get(self, run_id: str) -> None:
        hub = await self.services.hub()
        record = await asyncio.to_thread(hub.record, run_id)
        self.set_header("Content-Type", "text/csv; charset=utf-8")
        self.set_attachment_header(f"{record.info.id}.csv")
        rows = _csv(dict(record.series))
        while (chunk := await asyncio.to_thread(next, rows, None)) is not None:
            self.write(chunk)
            await self.flush()
        await self.finish(set_content_type="text/csv; charset=utf-8")


def _csv(series: dict[tuple[str, str], Series]) -> Iterator[str]:
    """``metric,task,seq,step,time,value``, in pieces of some thousand rows."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["metric", "task", "seq", "step", "time", "value"])
    for (metric, task), part in series.items():
        value, time, step, seq = part.value, part.time, part.step, part.seq
        for start in range(0, value.size, _ROWS_AT_ONCE):
            end = start + _ROWS_AT_ONCE
            columns = (column[start:end].tolist() for column in (seq, step, time, value))
            writer.writerows([metric, task, *row] for row in zip(*columns, strict=False))
            yield text.getvalue()
            text.seek(0)
            text.truncate()
    yield text.getvalue()
