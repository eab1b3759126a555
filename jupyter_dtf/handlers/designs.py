"""Routes for designs: checking, placing and exporting them, and describing the layers of a model in a file."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from jupyter_server.utils import ensure_async
from tornado import web

from ..backend.records.trace_files import read_placement
from ..errors import Conflict, NotFound, Unavailable
from ..schema.design import (
    MAX_TEXT_BYTES,
    DescribeRequest,
    Design,
    DesignReport,
    ModelSource,
    ProfileRequest,
    RunPlacement,
)
from ..schema.graph import LayerGraph
from ..schema.placement import Calibration, Placement
from .base import Handler
from .operation import operation

T = TypeVar("T")

MAX_PATH_BYTES = 1 << 15
"""Enough for the longest path on Linux with every character escaped, and for the surrounding JSON."""


class DesignHandler(Handler):
    """Base of the handlers for designs."""

    max_body_bytes = MAX_TEXT_BYTES
    _work: asyncio.Task[Any] | None = None

    async def while_asked(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of ``work``, which is cancelled if the client disconnects first."""
        task: asyncio.Task[T] = asyncio.get_running_loop().create_task(work)
        self._work = task
        try:
            return await task
        except asyncio.CancelledError:
            if task.cancelled():
                raise web.Finish from None
            task.cancel()
            raise

    def on_connection_close(self) -> None:
        super().on_connection_close()
        if self._work is not None:
            self._work.cancel()

    async def path_of(self, path: str) -> Path:
        """Return the file system path of a file that the server's contents manager shows. Raises NotFound."""
        manager = self.contents_manager
        if not await ensure_async(self.authorizer.is_authorized(self, self.current_user, "read", "contents")):
            raise web.HTTPError(403)
        where = getattr(manager, "_get_os_path", None)
        if where is None:
            raise Unavailable(
                "The files of this server are not in a local folder. Describe the model in its notebook instead"
            )
        try:
            is_there = await ensure_async(manager.file_exists(path)) or (
                path.strip("/") != "" and await ensure_async(manager.dir_exists(path))  # a SavedModel
            )
            is_shown = manager.allow_hidden or not await ensure_async(manager.is_hidden(path))
            if is_there and is_shown:
                return Path(where(path.strip("/")))
        except (web.HTTPError, OSError):  # outside the folder, or not a valid name
            pass
        raise NotFound(f"There is no file {path!r:.200}")


class CheckHandler(DesignHandler):
    @operation("Check a design: report the cluster that it would create, and problems of the design or its text")
    async def post(self, *, body: bytes) -> DesignReport:
        return await self.services.check_design(body)


class PlaceHandler(DesignHandler):
    @operation("Place a design's model automatically; pinned layers are not moved", errors=(503,))
    async def post(self, *, body: Design) -> Placement:
        return await self.while_asked(self.services.place_design(body))


class DescribeHandler(DesignHandler):
    max_body_bytes = MAX_PATH_BYTES

    @operation("Describe the layers of a model in a file", errors=(404, 503))
    async def post(self, *, body: DescribeRequest) -> LayerGraph:
        return await self.while_asked(self.services.describe_model(await self.path_of(body.path)))


class ScriptHandler(DesignHandler):
    @operation("Export a program in plain TensorFlow that trains a design's model with its placement")
    async def post(self, *, body: Design) -> str:
        return await self.services.script_of(body)


class ProfileHandler(DesignHandler):
    @operation(
        "Measure a design's model, which must be in a file, in a short run on a running cluster",
        errors=(404, 409, 503),
    )
    async def post(self, *, body: ProfileRequest) -> Calibration:
        source = body.design.model.source if body.design.model else ModelSource()
        if source.kind != "file":
            raise Conflict(
                f"The model must be in a file, got a model from {source.kind}. For a model in a kernel, call "
                "dtf.calibrate(model, cluster) there"
            )
        path = await self.path_of(source.path)
        return await self.while_asked(self.services.profile_model(path, body.cluster, body.design.run))


class RunPlacementHandler(Handler):
    @operation("Get the planned and the actual devices of a pipeline's layers", errors=(404,))
    async def get(self, run_id: str) -> RunPlacement:
        from ..backend.records.step_times import step_times  # imports NumPy, which the extension must not load

        hub = await self.services.hub()
        info = await asyncio.to_thread(hub.info, run_id)
        found = await asyncio.to_thread(read_placement, Path(info.run_dir))
        record = await asyncio.to_thread(hub.record, run_id)
        return msgspec.structs.replace(found, steps=step_times(dict(record.series), info.parameters))
