"""The WorkerPlugin for an external Dask worker: sets up a ``Host`` there, and removes it.

The plugin is sent as source text, because the worker may lack this package or run another Python version, and Dask
shuts down a joining worker that cannot unpickle a plugin. Therefore, this module imports only the standard library and
Dask, and reports errors instead of raising them.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import platform
import sys
from typing import Any

from distributed.diagnostics.plugin import WorkerPlugin


class Visitor(WorkerPlugin):
    """Sets up and removes a ``Host`` on one worker.

    Args:
        name: The name of the plugin.
        release: The version of jupyter_dtf that the worker must have.
        words: The names of the scheduler operations to which this plugin reports, keyed by ``problem`` and
            ``farewell``.
        host: The data from which to create the ``Host`` (``Host.made_of``).
    """

    def __init__(self, name: str, release: str, words: dict[str, str], host: dict[str, Any]) -> None:
        self.name = name
        self._release = release
        self._words = words
        self._made_of = host
        self._host: Any = None
        self._is_gone = False
        self._brought_package = False

    async def setup(self, worker: Any) -> None:
        """Make the worker a host. Never raises, because the worker is external and must keep running."""
        try:
            self._brought_package = "jupyter_dtf" not in sys.modules
            made = await asyncio.to_thread(self._make)
            if self._is_gone:
                return
            if isinstance(made, str):
                self._say(worker, "problem", why=made)
                return
            self._host = made
            await made.setup(worker)
        except Exception as error:
            self._say(worker, "problem", why=f"{type(error).__name__}: {error}")

    async def teardown(self, worker: Any) -> None:
        """Remove what ``setup`` added, then send the farewell, the plugin's last message to the scheduler."""
        self._is_gone = True
        try:
            if self._host is not None:
                await self._host.teardown(worker)
            if self._brought_package:
                quiet = importlib.import_module("jupyter_dtf.tensorflow_chatter")
                quiet.speak()
                quiet.unhook()
        finally:
            self._say(worker, "farewell")

    def _make(self) -> Any:
        """Return the host, or the reason why the worker cannot be a host."""
        if importlib.util.find_spec("jupyter_dtf") is None:
            return (
                f"jupyter_dtf is not installed there ({sys.executable}, Python {platform.python_version()}): "
                f"pip install jupyter-dtf[cpu]=={self._release}, and restart the worker"
            )
        release = importlib.import_module("jupyter_dtf._version").__version__
        if release != self._release:
            return (
                f"it has jupyter_dtf {release} instead of {self._release}: install that release, and restart the worker"
            )
        return importlib.import_module("jupyter_dtf.backend.host.host").Host.made(self._made_of)

    def _say(self, worker: Any, word: str, **more: Any) -> None:
        with contextlib.suppress(Exception):  # the stream is closed: the worker is shutting down
            worker.batched_stream.send({"op": self._words[word], **more})
