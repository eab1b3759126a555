"""A run's trace: what ran where, for the dashboard's timeline and as a file for other viewers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from jupyter_server.auth.decorator import authorized
from tornado import web

from ..backend.traces import chrome
from ..backend.traces.files import longest, read_traces
from ..schema.trace import TraceData
from .base import Handler

MAX_OPS = 5000
"""More than this many operations are not sent to be drawn."""


class TraceHandler(Handler):
    @web.authenticated
    @authorized
    async def get(self, run_id: str) -> None:
        trace = await _read(self, run_id)
        self.answer(await asyncio.to_thread(longest, trace, MAX_OPS))


class ChromeTraceHandler(Handler):
    """All of it in Chrome's trace format, to download."""

    @web.authenticated
    @authorized
    async def get(self, run_id: str) -> None:
        trace = await _read(self, run_id)
        self.set_attachment_header(f"{run_id}.trace.json")
        await self.finish(await asyncio.to_thread(lambda: json.dumps(chrome.document(trace))))


async def _read(handler: Handler, run_id: str) -> TraceData:
    hub = await handler.services.hub()
    info = await asyncio.to_thread(hub.info, run_id)
    return await asyncio.to_thread(read_traces, Path(info.run_dir))
