"""The histograms, images, texts and tables that a run's tasks have reported."""

from __future__ import annotations

import asyncio
import math
from typing import Annotated

from ..schema.events import Histogram, Picture, ReportedTable, ReportedText
from ..schema.media import MediaSeries
from .base import Handler
from .operation import operation

_NAME = "The name under which the task reported it"
_TASK = "The task, such as worker:1"


class MediaHandler(Handler):
    @operation("List the histograms, images, texts and tables of a run, with their steps", errors=(404,))
    async def get(self, run_id: str) -> list[MediaSeries]:
        hub = await self.services.hub()
        return await asyncio.to_thread(hub.media, run_id, lambda media: media.overview())


class HistogramsHandler(Handler):
    @operation("A task's histograms of one name, by step; if there are too many, evenly fewer", errors=(404,))
    async def get(
        self, run_id: str, *, name: Annotated[str, _NAME] = "", task: Annotated[str, _TASK] = ""
    ) -> list[Histogram]:
        hub = await self.services.hub()
        return await asyncio.to_thread(hub.media, run_id, lambda media: media.histograms(name, task))


class ImageHandler(Handler):
    @operation("A task's image of one name at a step, or the last one before it", errors=(404,))
    async def get(
        self,
        run_id: str,
        *,
        name: Annotated[str, _NAME] = "",
        task: Annotated[str, _TASK] = "",
        step: Annotated[float | None, "The step; by default that of the newest image"] = None,
    ) -> Picture:
        hub = await self.services.hub()
        at = math.inf if step is None else step
        return await asyncio.to_thread(hub.media, run_id, lambda media: media.picture(name, task, at))


class TextHandler(Handler):
    @operation("The text of one name of a task at a step, or the last before it", errors=(404,))
    async def get(
        self,
        run_id: str,
        *,
        name: Annotated[str, _NAME] = "",
        task: Annotated[str, _TASK] = "",
        step: Annotated[float | None, "A step; without, the newest text"] = None,
    ) -> ReportedText:
        hub = await self.services.hub()
        at = math.inf if step is None else step
        return await asyncio.to_thread(hub.media, run_id, lambda media: media.text(name, task, at))


class TableHandler(Handler):
    @operation("The table of one name of a task at a step, or the last before it", errors=(404,))
    async def get(
        self,
        run_id: str,
        *,
        name: Annotated[str, _NAME] = "",
        task: Annotated[str, _TASK] = "",
        step: Annotated[float | None, "A step; without, the newest table"] = None,
    ) -> ReportedTable:
        hub = await self.services.hub()
        at = math.inf if step is None else step
        return await asyncio.to_thread(hub.media, run_id, lambda media: media.table(name, task, at))
