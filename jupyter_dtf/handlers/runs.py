"""Runs: list, look, stop, delete, their events and points."""

from __future__ import annotations

import asyncio
import csv
import io
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from ..schema.api import ResumeRequest
from ..schema.base import decode_json
from ..schema.run import RunInfo
from ..schema.run_marks import RunPatch
from ..schema.search_trial import SearchRequest
from ..schema.socket_messages import EventsMessage, SeriesMessage
from .base import Handler
from .feed import events_message
from .operation import CSV, operation

if TYPE_CHECKING:
    from ..backend.records.series import Series

_ROWS_AT_ONCE = 5000


class RunsHandler(Handler):
    @operation("Every run, live and past, newest first")
    async def get(self) -> list[RunInfo]:
        hub = await self.services.hub()
        return await asyncio.to_thread(hub.runs)


class RunHandler(Handler):
    max_body_bytes = 1 << 17  # of the longest note, every letter of it an escape

    @operation("One run", errors=(404,))
    async def get(self, run_id: str) -> RunInfo:
        hub = await self.services.hub()
        return await asyncio.to_thread(hub.info, run_id)

    @operation(
        "Say something of a run: name, tags, note; archive it, delete it, or have it back", errors=(404, 409, 503)
    )
    async def patch(self, run_id: str, *, body: RunPatch) -> RunInfo:
        hub = await self.services.hub()
        return await asyncio.to_thread(hub.mark, run_id, body)

    @operation("Forget a run that has ended; its run_dir stays", errors=(404, 409))
    async def delete(self, run_id: str) -> None:
        hub = await self.services.hub()
        await asyncio.to_thread(hub.delete, run_id)


class StopHandler(Handler):
    @operation("Ask a run to stop; asked again, end it at once", status=202, errors=(404, 409, 503))
    async def post(self, run_id: str) -> None:
        await (await self.services.fleet()).stop_run(run_id)


class PauseHandler(Handler):
    @operation("Have a run end its tasks with a checkpoint, and wait", status=202, errors=(404, 409, 503))
    async def post(self, run_id: str) -> None:
        await (await self.services.fleet()).pause_run(run_id)


class ContinueHandler(Handler):
    @operation("Have a paused run go on", status=202, errors=(404, 409, 503))
    async def post(self, run_id: str) -> None:
        await (await self.services.fleet()).continue_run(run_id)


class ResumeHandler(Handler):
    @operation("A new run that goes on with this one from a checkpoint", status=201, errors=(404, 409, 503))
    async def post(self, run_id: str, *, body: ResumeRequest) -> RunInfo:
        return await self.services.resume_run(run_id, body)


class SearchHandler(Handler):
    @operation("Ask a search to stop, or to have more trials", status=202, errors=(404, 409, 503))
    async def post(self, search_id: str, *, body: SearchRequest) -> None:
        await (await self.services.fleet()).ask_search(search_id, body)


class RunEventsHandler(Handler):
    @operation("A page of a run's events but its points; the next one begins after next_seq - 1", errors=(404,))
    async def get(
        self,
        run_id: str,
        *,
        after: Annotated[int, "Only events with a greater sequence number; -1, the default, for the first"] = -1,
    ) -> EventsMessage:
        hub = await self.services.hub()
        return await asyncio.to_thread(events_message, hub, run_id, after)


class SeriesHandler(Handler):
    """Whoever looks at a part of a plot asks for that part: what the socket sends is decimated over the whole run."""

    @operation("The lines of some metrics between two values of x, decimated for a width", errors=(404,))
    async def get(
        self,
        run_id: str,
        *,
        metrics: Annotated[str, 'Names of metrics, as a list in JSON: ["loss", "val_loss"]'] = "[]",
        start: Annotated[float | None, "From this x on: a step, or seconds since the epoch"] = None,
        end: Annotated[float | None, "To this x"] = None,
        width: Annotated[int, "Of the plot, in pixels"] = 600,
        x: Annotated[str, "step or time"] = "step",
    ) -> SeriesMessage:
        from ..backend.records.zoomed import zoomed_frames

        names: list[str] = decode_json(metrics.encode(), list[str])
        hub = await self.services.hub()
        part = (-math.inf if start is None else start, math.inf if end is None else end)
        frames = await asyncio.to_thread(zoomed_frames, hub, run_id, names, part, width=width, x=x)
        return SeriesMessage(run=run_id, frames=frames)


class MetricsHandler(Handler):
    """Every point of a run, as a table to download."""

    @operation(
        "Every point of a run: metric, task, seq, step, time (seconds since the epoch), value",
        errors=(404,),
        writes=CSV,
    )
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
