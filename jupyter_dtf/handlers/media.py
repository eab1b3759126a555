"""The histograms, pictures, texts and tables that a run's tasks have reported."""

from __future__ import annotations

import asyncio
import math
from typing import Annotated

from ..schema.events import Histogram, Picture, ReportedTable, ReportedText
from ..schema.media import MediaSeries
from .base import Handler
from .operation import operation

_NAME = "What the task calls it"
_TASK = "Which task, such as worker:1"


class MediaHandler(Handler):
    @operation("Which histograms, pictures, texts and tables there are of a run, and of which steps", errors=(404,))
    async def get(self, run_id: str) -> list[MediaSeries]:
        hub = await self.services.hub()
        return await asyncio.to_thread(hub.media, run_id, lambda media: media.overview())


class HistogramsHandler(Handler):
    @operation("The histograms of one name of a task, by their steps; of very many, evenly fewer", errors=(404,))
    async def get(
        self, run_id: str, *, name: Annotated[str, _NAME] = "", task: Annotated[str, _TASK] = ""
    ) -> list[Histogram]:
        hub = await self.services.hub()
        return await asyncio.to_thread(hub.media, run_id, lambda media: media.histograms(name, task))


class ImageHandler(Handler):
    @operation("The picture of one name of a task at a step, or the last before it", errors=(404,))
    async def get(
        self,
        run_id: str,
        *,
        name: Annotated[str, _NAME] = "",
        task: Annotated[str, _TASK] = "",
        step: Annotated[float | None, "A step; without, the newest picture"] = None,
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
