"""Handles runs that cannot be saved: warns while the cluster runs, and saves them elsewhere when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...errors import ClusterLost, DtfError, Unavailable
from ...schema import private_files
from ...schema.base import convert
from ...schema.run import RunDescriptor
from ..machine import paths
from ..records.archive import Archive
from ..viewer.connections import Connection
from ..viewer.link import Link
from .reconnecting_link import AGAIN_S, HeldLink
from .viewer_streams import ARCHIVE

logger = logging.getLogger(__name__)

RETRY_S = 2.0
WARNING = "archive"


class Saving:
    """Watches the archive of one cluster, in the cluster process."""

    def __init__(self, archive: Archive, link: HeldLink, connection: Connection) -> None:
        self._archive = archive
        self._link = link
        self._connection = connection
        self._telling: asyncio.Task[None] | None = None
        self._changed = False

    def look(self) -> None:
        """Report to the controller whether the archive can write."""
        self._changed = True
        if self._telling is None or self._telling.done():
            self._telling = asyncio.get_running_loop().create_task(self._tell())

    async def _tell(self) -> None:
        while self._changed:
            self._changed = False
            text = ""
            if self._archive.error:
                text = (
                    f"Runs of this cluster are not being saved: {self._archive.error}. They are kept in memory and "
                    "written as soon as that is possible; if the cluster ends before that, they are saved in "
                    f"{tempfile.gettempdir()} instead"
                )
            try:
                await self._link.request("warn", key=WARNING, text=text, runs=sorted(self._archive.unsaved))
            except ClusterLost:
                if self._link.is_over:
                    return
                self._changed = True
                await asyncio.sleep(AGAIN_S)

    async def finish(self, write_connection: Callable[[], None]) -> str:
        """Save the runs that are not saved yet, in the usual store or elsewhere. Returns a message for the user.

        If they cannot be saved anywhere, retry until they can, or until the user kills this process.
        """
        while True:
            try:
                await self._archive.close()
                return ""
            except Unavailable as error:
                refused = str(error)
            runs = sorted(self._archive.waiting)
            known = f"{len(runs)} run{'s' * (len(runs) != 1)} ({', '.join(runs)})"
            try:
                directory = await self._save_elsewhere(runs)
            except Unavailable as error:
                message = f"{known} would be lost: {refused}. {error}. Saving is retried until there is enough space"
                if message != self._connection.message:
                    logger.error("%s", message)
                    self._connection.message = message
                    write_connection()
                await asyncio.sleep(RETRY_S)
            else:
                return (
                    f"{known} of the cluster {self._connection.name} could not be saved in the usual place: {refused}. "
                    f"They are in {directory} instead: JUPYTER_DTF_DATA_DIR={directory} shows them"
                )

    async def _save_elsewhere(self, runs: list[str]) -> Path:
        """Save these runs in a new store and return its directory. Raises Unavailable."""
        logs, submitted = await self._all_of(runs)
        refusals = []
        stamp = time.strftime("%Y%m%d-%H%M%S")
        for parent in (Path(tempfile.gettempdir()), Path.home()):
            directory = parent / f"jupyter_dtf-{os.getuid()}-saved-{self._connection.name}-{stamp}"
            try:
                private_files.own_dir(directory)
                await self._archive.save_to(directory / paths.store_path().name, logs, submitted)
            except (Unavailable, OSError) as error:
                refusals.append(str(error))
                await asyncio.to_thread(_remove, directory)
            else:
                return directory
        raise Unavailable(". ".join(dict.fromkeys(refusals)))

    async def _all_of(self, runs: list[str]) -> tuple[dict[str, list[bytes]], list[RunDescriptor]]:
        """Fetch all events and the descriptors of these runs from the controller, and return them."""
        logs: dict[str, list[bytes]] = {}
        submitted: dict[str, RunDescriptor] = {}
        attached = asyncio.Event()

        def on_message(message: dict[str, Any]) -> None:
            match message["op"]:
                case "run" if message["info"]["id"] in runs:
                    submitted[message["info"]["id"]] = convert(message["info"], RunDescriptor)
                case "event" if message["run"] in runs:
                    logs.setdefault(message["run"], []).append(message["data"])
                case "attached":
                    attached.set()

        with contextlib.suppress(DtfError, OSError):  # then only the events that are waiting here are saved
            link = await Link.open(self._connection, on_message, attached.set, role=ARCHIVE)
            await attached.wait()
            await link.close()
        return logs, list(submitted.values())


def _remove(directory: Path) -> None:
    """Remove a store that could not be written."""
    for path in directory.glob("*"):
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        directory.rmdir()
