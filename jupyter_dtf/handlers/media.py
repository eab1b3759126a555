"""Routes for the histograms, images, strings and tables that a run's tasks have reported."""

from __future__ import annotations

import asyncio
import math
from typing import Annotated

from ..schema.events import Histogram, Picture, ReportedTable, ReportedText
from ..schema.media import MediaSeries
from .base import Handler
from .operation import operation

_NAME = "The name under which the task reported the item"
_TASK = "The task, such as worker:1"


class MediaHandler(Handler):
    @operation("List the histograms, images, texts and tables of a run, with their steps", errors=(404,))
    async def get(self, run_id: str) -> list[MediaSeries]:
        hub = await self.services.hub()
        return await asyncio.to_thread(hub.media, run_id, lambda media: media.overview())


class HistogramsHandler(Handler):
    @operation(
        "Get a task's histograms under one name, ordered by step; if there are too many, evenly spaced ones",
        errors=(404,),
    )
    async def get(
        self, run_id: str, *, name: Annotated[str, _NAME] = "", task: Annotated[str, _TASK] = ""
    ) -> list[Histogram]:
        hub = await self.services.hub()
        return await asyncio.to_thread(hub.media, run_id, lambda media: media.histograms(name, task))


class ImageHandler(Handler):
    @operation(
        "Get the image that a task reported under a name at a step, or else the last one before that step",
        errors=(404,),
    )
    async def get(
        self,
        run_id: str,
        *,
        name: Annotated[str, _NAME] = "",
        task: Annotated[str, _TASK] = "",
        step: Annotated[float | None, "The step; by default, that of the newest image"] = None,
    ) -> Picture:
        hub = await self.services.hub()
        at = math.inf if step is None else step
        return await asyncio.to_thread(hub.media, run_id, lambda media: media.picture(name, task, at))


class TextHandler(Handler):
    @operation(
        "Get the text that a task reported under a name at a step, or else the last one before that step", errors=(404,)
    )
    async def get(
        self,
        run_id: str,
        *,
        name: Annotated[str, _NAME] = "",
        task: Annotated[str, _TASK] = "",
        step: Annotated[float | None, "The step; by default, that of the newest text"] = None,
    ) -> ReportedText:
        hub = await self.services.hub()
        at = math.inf if step is None else step
        return await asyncio.to_thread(hub.media, run_id, lambda media: media.text(name, task, at))


class TableHandler(Handler):
    @operation(
        "Get the table that a task reported under a name at a step, or else the last one before that step",
        errors=(404,),
    )
    async def get(
        self,
        run_id: str,
        *,
        name: Annotated[str, _NAME] = "",
        task: Annotated[str, _TASK] = "",
        step: Annotated[float | None, "The step; by default, that of the newest table"] = None,
    ) -> ReportedTable:
        hub = await self.services.hub()
        at = math.inf if step is None else step
        return await asyncio.to_thread(hub.media, run_id, lambda media: media.table(name, task, at))
