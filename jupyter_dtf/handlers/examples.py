"""Routes for examples, which are copied into the user's folder to be run and modified there."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from jupyter_server.utils import ensure_async
from tornado import web

from ..errors import NotFound, Unavailable
from ..schema.api import ExampleCopy, ExampleRequest
from .base import Handler
from .designs import MAX_PATH_BYTES
from .operation import operation

FIRST = "digits.ipynb"


def directory() -> Path:
    """Return the directory of the examples: in the package if installed from a wheel, next to it in a checkout."""
    package = Path(__file__).parents[1]
    packaged = package / "examples"
    return packaged if packaged.is_dir() else package.parent / "examples"


def paths() -> dict[str, Path]:
    """Return the examples that can be copied, keyed by name: the introduction, other notebooks, then scripts."""
    folders = (directory(), directory() / "notebooks")
    found = {path.name: path for folder in folders for path in folder.glob("*") if path.suffix in (".ipynb", ".py")}
    return {name: found[name] for name in sorted(found, key=lambda name: (name != FIRST, name.endswith(".py"), name))}


def model_of(name: str) -> dict[str, Any]:
    """Return an example in the form that a contents manager saves. Raises NotFound."""
    found = paths()
    if name not in found:
        raise NotFound(f"The example must be one of {', '.join(found)}, got {name!r:.200}")
    text = found[name].read_text(encoding="utf-8")
    if name.endswith(".ipynb"):
        return {"type": "notebook", "format": "json", "content": json.loads(text)}
    return {"type": "file", "format": "text", "content": text}


class ExamplesHandler(Handler):
    @operation("List the names of the examples that can be copied, notebooks first")
    async def get(self) -> list[str]:
        return await asyncio.to_thread(lambda: list(paths()))


class ExampleHandler(Handler):
    max_body_bytes = MAX_PATH_BYTES

    @operation("Copy an example into a folder of the server, under an unused name", status=201, errors=(404, 503))
    async def post(self, name: str, *, body: ExampleRequest) -> ExampleCopy:
        folder = body.folder.strip("/")
        if not await ensure_async(self.authorizer.is_authorized(self, self.current_user, "write", "contents")):
            raise web.HTTPError(403, "You are not permitted to write files on this server")
        model = await asyncio.to_thread(model_of, name)
        manager = self.contents_manager
        await self._check_folder(folder)
        try:
            async with self.services.copying:
                free = await ensure_async(manager.increment_filename(name, folder, insert="-"))
                path = f"{folder}/{free}" if folder else free
                await ensure_async(manager.save(model, path))
        except (web.HTTPError, OSError) as error:
            why = error.log_message if isinstance(error, web.HTTPError) else error.strerror
            raise Unavailable(f"The folder {'/' + folder!r:.200} cannot be written: {why}") from None
        return ExampleCopy(path=path)

    async def _check_folder(self, folder: str) -> None:
        """Raise NotFound unless ``folder`` is a folder that the server shows."""
        manager = self.contents_manager
        try:
            is_there = folder == "" or (
                await ensure_async(manager.dir_exists(folder))
                and (manager.allow_hidden or not await ensure_async(manager.is_hidden(folder)))
            )
        except (web.HTTPError, OSError, ValueError):  # outside the server's folder, or not a valid name
            is_there = False
        if not is_there:
            raise NotFound(f"There is no folder {folder!r:.200}")
