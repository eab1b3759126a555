"""Routes for runs: listing, inspecting, stopping and deleting them, and their events and points."""

from __future__ import annotations

import asyncio
import csv
import io
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from ..schema.api import ResumeRequest, RunProfileRequest
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
    @operation("List all runs, active and past, newest first")
    async def get(self) -> list[RunInfo]:
        hub = await self.services.hub()
        return await asyncio.to_thread(hub.runs)


class RunHandler(Handler):
    max_body_bytes = 1 << 17  # for the longest note with every character escaped

    @operation("Get one run", errors=(404,))
    async def get(self, run_id: str) -> RunInfo:
        hub = await self.services.hub()
        return await asyncio.to_thread(hub.info, run_id)

    @operation("Change a run's name, tags or note; archive, delete or restore it", errors=(404, 409, 503))
    async def patch(self, run_id: str, *, body: RunPatch) -> RunInfo:
        hub = await self.services.hub()
        return await asyncio.to_thread(hub.mark, run_id, body)

    @operation("Permanently delete a run that has ended; its run_dir is kept", errors=(404, 409))
    async def delete(self, run_id: str) -> None:
        hub = await self.services.hub()
        await asyncio.to_thread(hub.delete, run_id)


class StopHandler(Handler):
    @operation("Request that a run stop; a second request ends it immediately", status=202, errors=(404, 409, 503))
    async def post(self, run_id: str) -> None:
        await (await self.services.fleet()).stop_run(run_id)


class PauseHandler(Handler):
    @operation("Pause a run: write a checkpoint and end its tasks", status=202, errors=(404, 409, 503))
    async def post(self, run_id: str) -> None:
        await (await self.services.fleet()).pause_run(run_id)


class ContinueHandler(Handler):
    @operation("Continue a paused run", status=202, errors=(404, 409, 503))
    async def post(self, run_id: str) -> None:
        await (await self.services.fleet()).continue_run(run_id)


class RunProfileHandler(Handler):
    @operation("Trace the next steps of an active run on all its tasks", status=202, errors=(404, 409, 503))
    async def post(self, run_id: str, *, body: RunProfileRequest) -> None:
        await (await self.services.fleet()).profile_run(run_id, body.steps)


class ResumeHandler(Handler):
    @operation("Start a new run that continues this one from a checkpoint", status=201, errors=(404, 409, 503))
    async def post(self, run_id: str, *, body: ResumeRequest) -> RunInfo:
        return await self.services.resume_run(run_id, body)


class SearchHandler(Handler):
    @operation("Request that a search stop or run more trials", status=202, errors=(404, 409, 503))
    async def post(self, search_id: str, *, body: SearchRequest) -> None:
        await (await self.services.fleet()).ask_search(search_id, body)


class RunEventsHandler(Handler):
    @operation("Get a page of a run's events, without points; the next page starts after next_seq - 1", errors=(404,))
    async def get(
        self,
        run_id: str,
        *,
        after: Annotated[int, "Only events with a greater sequence number; -1, the default: all events"] = -1,
    ) -> EventsMessage:
        hub = await self.services.hub()
        return await asyncio.to_thread(events_message, hub, run_id, after)


class SeriesHandler(Handler):
    """Returns the series for a zoomed plot. The socket sends series that are decimated over the whole run."""

    @operation("Get the series of metrics between two values of x, decimated to the width of a plot", errors=(404,))
    async def get(
        self,
        run_id: str,
        *,
        metrics: Annotated[str, 'The names of the metrics as a JSON list: ["loss", "val_loss"]'] = "[]",
        start: Annotated[float | None, "The smallest x: a step, or seconds since 1970"] = None,
        end: Annotated[float | None, "The largest x"] = None,
        width: Annotated[int, "The width of the plot in pixels"] = 600,
        x: Annotated[str, "step or time"] = "step",
    ) -> SeriesMessage:
        from ..backend.records.zoomed_lines import zoomed_frames

        names: list[str] = decode_json(metrics.encode(), list[str])
        hub = await self.services.hub()
        part = (-math.inf if start is None else start, math.inf if end is None else end)
        frames = await asyncio.to_thread(zoomed_frames, hub, run_id, names, part, width=width, x=x)
        return SeriesMessage(run=run_id, frames=frames)


class MetricsHandler(Handler):
    """Sends every point of a run, as a table to download."""

    @operation(
        "Get every point of a run: metric, task, seq, step, time (seconds since 1970), value",
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
    """Yield ``metric,task,seq,step,time,value`` as CSV, in pieces of several thousand rows."""
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
