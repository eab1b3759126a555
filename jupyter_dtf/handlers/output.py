"""Routes for the output of a run's tasks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

from ..errors import InvalidInput
from ..schema.api import OutputPage
from ..schema.base import to_plain
from .base import Handler
from .operation import TEXT, operation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..backend.records.hub import Hub
    from ..backend.records.output_reader import OutputReader

STREAMS = ("stdout", "stderr")
PIECE = 1 << 20


class OutputHandler(Handler):
    """Returns a page of the output of all tasks or one, by time; with ``stream``, lines of one task, by number."""

    @operation(
        "Get a page of the output of a run's tasks, by default the last one; with stream, lines by number",
        errors=(404,),
    )
    async def get(
        self,
        run_id: str,
        *,
        task: Annotated[str, "Only the output of this task, such as worker:1"] = "",
        before_time: Annotated[float | None, "Return the page before this time, in seconds since 1970"] = None,
        after_time: Annotated[float | None, "Return the page after this time, in seconds since 1970"] = None,
        stream: Annotated[str, "stdout or stderr of the task: return lines by number"] = "",
        first: Annotated[int, "The number of the first line, counted from 0; if negative, counted from the end"] = 0,
        count: Annotated[int, "The largest number of lines"] = 1000,
    ) -> OutputPage:
        hub = await self.services.hub()
        if stream:
            if stream not in STREAMS or not task:
                raise InvalidInput(
                    f"`stream` must be stdout or stderr, and given with a task, got {stream!r:.100} of {task!r:.100}",
                    field="stream",
                )
            if count < 1:
                raise InvalidInput(f"`count` must be >= 1, got {count}", field="count")
            reader = await asyncio.to_thread(hub.output, run_id, task)
            return await asyncio.to_thread(_lines, reader, run_id, stream, first, count)
        if before_time is not None and after_time is not None:
            raise InvalidInput("`after_time` must not be combined with before_time, got both", field="after_time")
        return await asyncio.to_thread(_page, hub, run_id, task, before_time, after_time)


class OutputTextHandler(Handler):
    """Sends all output as a text file to download. The file is sent in pieces, so it may have any length."""

    @operation(
        "Get all output of a run's tasks as text; lines of all tasks are prefixed with the name of their task",
        errors=(404,),
        writes=TEXT,
    )
    async def get(
        self,
        run_id: str,
        *,
        task: Annotated[str, "Only the output of this task, such as worker:1"] = "",
        find: Annotated[str, "Only lines that contain this text, ignoring case"] = "",
    ) -> None:
        hub = await self.services.hub()
        reader = await asyncio.to_thread(hub.output, run_id, task)
        with reader:
            self.set_header("Content-Type", "text/plain; charset=utf-8")
            self.set_attachment_header(f"{run_id}{'-' * bool(task)}{task.replace(':', '-')}.txt")
            pieces = _text(reader, prefixed=not task, find=find)
            while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
                self.write(piece)
                await self.flush()
        await self.finish(set_content_type="text/plain; charset=utf-8")


def _text(reader: OutputReader, prefixed: bool, find: str) -> Iterator[str]:
    """Yield the lines that contain ``find``, as one string for about every ``PIECE`` characters of output."""
    wanted = find.lower()
    found: list[str] = []
    looked_through = 0
    for block in reader.blocks({}):
        start = f"{block.task} | " if prefixed else ""
        found += [f"{start}{line}\n" for line in block.lines if wanted in line.lower()]
        looked_through += sum(map(len, block.lines)) + len(block.lines)
        if looked_through >= PIECE:
            yield "".join(found)
            found, looked_through = [], 0
    yield "".join(found)


def _page(hub: Hub, run_id: str, task: str, before: float | None, after: float | None) -> OutputPage:
    with hub.output(run_id, task) as reader:
        if after is not None:
            events, later = reader.after(after)
            return OutputPage(run=run_id, events=list(map(to_plain, events)), earlier=True, later=later)
        events, earlier = reader.before(before)
        return OutputPage(run=run_id, events=list(map(to_plain, events)), earlier=earlier, later=before is not None)


def _lines(reader: OutputReader, run_id: str, stream: str, first: int, count: int) -> OutputPage:
    with reader:
        found = reader.lines(stream, first, count)
        total = reader.total(stream)
    if found is None:
        return OutputPage(run=run_id)
    end = found.first + len(found.lines)
    return OutputPage(run=run_id, events=[to_plain(found)], earlier=found.first > 0, later=end < total, total=total)
