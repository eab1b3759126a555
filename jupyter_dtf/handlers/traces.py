"""Routes for a run's trace: for the dashboard's timeline, and as a file for other viewers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from ..backend.records import chrome_trace
from ..backend.records.trace_files import read_traces
from ..schema.trace import TraceData
from .base import Handler
from .operation import operation

MAX_OPS = 5000
"""The largest number of operations that are sent to be drawn."""


class TraceHandler(Handler):
    @operation("Get the operations of the traced steps; if there are too many, only the longest ones", errors=(404,))
    async def get(self, run_id: str) -> TraceData:
        trace = await _read(self, run_id)
        return await asyncio.to_thread(chrome_trace.longest, trace, MAX_OPS)


class ChromeTraceHandler(Handler):
    """Sends the whole trace in Chrome's trace format, to download."""

    @operation(
        "Get the whole trace of a run in Chrome's trace format, for chrome://tracing and Perfetto",
        errors=(404,),
        writes=dict[str, Any],
    )
    async def get(self, run_id: str) -> None:
        trace = await _read(self, run_id)
        self.set_attachment_header(f"{run_id}.trace.json")
        await self.finish(await asyncio.to_thread(lambda: json.dumps(chrome_trace.document(trace))))


async def _read(handler: Handler, run_id: str) -> TraceData:
    hub = await handler.services.hub()
    info = await asyncio.to_thread(hub.info, run_id)
    return await asyncio.to_thread(read_traces, Path(info.run_dir))
