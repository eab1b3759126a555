"""Designs: what they would make, where their layers go, the layers of a model in a file."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from jupyter_server.auth.decorator import authorized
from jupyter_server.utils import ensure_async
from tornado import web

from ..backend.traces.files import read_placement
from ..errors import Conflict, NotFound, Unavailable
from ..schema.design import MAX_TEXT_BYTES, DescribeRequest, Design, ModelSource, ProfileRequest
from .base import Handler

T = TypeVar("T")


class DesignHandler(Handler):
    """Base of what is asked of designs."""

    max_body_bytes = MAX_TEXT_BYTES
    _work: asyncio.Task[Any] | None = None

    async def while_asked(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for ``work``, which is cancelled when the client goes away."""
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
        """Where a file of the server's folder is, by the rules of its contents manager. Raises NotFound."""
        manager = self.contents_manager
        if not await ensure_async(self.authorizer.is_authorized(self, self.current_user, "read", "contents")):
            raise web.HTTPError(403)
        where = getattr(manager, "_get_os_path", None)
        if where is None:
            raise Unavailable("The files of this server are not in a folder: describe the model in its notebook")
        try:
            is_there = await ensure_async(manager.file_exists(path)) or (
                path.strip("/") != "" and await ensure_async(manager.dir_exists(path))  # a SavedModel
            )
            is_shown = manager.allow_hidden or not await ensure_async(manager.is_hidden(path))
            if is_there and is_shown:
                return Path(where(path.strip("/")))
        except (web.HTTPError, OSError):  # outside of the folder, or no name that a file can have
            pass
        raise NotFound(f"There is no file of that name. Received: {path!r:.200}")


class CheckHandler(DesignHandler):
    @web.authenticated
    @authorized
    async def post(self) -> None:
        """The body is the text of a Design, whatever is wrong with it."""
        self.answer(await self.services.check_design(self.raw_body()))


class PlaceHandler(DesignHandler):
    @web.authenticated
    @authorized
    async def post(self) -> None:
        design = await asyncio.to_thread(Design.decode, self.raw_body())
        self.answer(await self.while_asked(self.services.place_design(design)))


class DescribeHandler(DesignHandler):
    @web.authenticated
    @authorized
    async def post(self) -> None:
        path = await self.path_of(self.body(DescribeRequest).path)
        self.answer(await self.while_asked(self.services.describe_model(path)))


class ProfileHandler(DesignHandler):
    @web.authenticated
    @authorized
    async def post(self) -> None:
        asked = await asyncio.to_thread(self.body, ProfileRequest)
        source = asked.design.model.source if asked.design.model else ModelSource()
        if source.kind != "file":
            raise Conflict(
                "The server measures models that are in files. For one in a kernel, call dtf.calibrate(model, cluster) "
                f"there. Received: a model from {source.kind}"
            )
        path = await self.path_of(source.path)
        self.answer(await self.while_asked(self.services.profile_model(path, asked.cluster, asked.design.run)))


class ScriptHandler(DesignHandler):
    @web.authenticated
    @authorized
    async def post(self) -> None:
        design = await asyncio.to_thread(Design.decode, self.raw_body())
        self.answer(await self.services.script_of(design))


class RunPlacementHandler(Handler):
    @web.authenticated
    @authorized
    async def get(self, run_id: str) -> None:
        hub = await self.services.hub()
        info = await asyncio.to_thread(hub.info, run_id)
        self.answer(await asyncio.to_thread(read_placement, Path(info.run_dir)))
