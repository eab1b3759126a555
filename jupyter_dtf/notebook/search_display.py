"""Shows a search in a notebook's output: live with the extension, and as a static picture that the notebook saves."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from .search_still import search_still

if TYPE_CHECKING:
    from ..client.search.search import Search

logger = logging.getLogger(__name__)

SEARCH_MIME = "application/vnd.jupyter-dtf.search+json"
"""``{"search": id}``: the live view of a search."""


class SearchShown:
    """A search shown in a notebook's output. When it ends, its static picture is replaced by the final one."""

    def __init__(self, search: Search) -> None:
        from IPython.display import display

        self._search = search
        self._lock = threading.Lock()
        self._final = search.has_ended
        self._handle = display(search_bundle(search), raw=True, display_id=True)
        if not self._final:
            threading.Thread(target=self._finish_at_end, name="dtf-still", daemon=True).start()

    def _finish_at_end(self) -> None:
        try:
            self._search.wait()
            self.finish()
        except Exception as error:  # the kernel is ending
            logger.debug("The final picture of %s could not be shown: %s", self._search.name, error)

    def finish(self) -> None:
        """Draw the final picture if the search has ended; otherwise, do nothing."""
        with self._lock:
            if not self._final and self._search.has_ended:
                self._final = True
                self._handle.update(search_bundle(self._search), raw=True)


def search_bundle(search: Search) -> dict[str, Any]:
    """Return the live view of a search, with a static picture and a table for frontends without the extension."""
    return {
        SEARCH_MIME: {"search": search.id},
        "image/svg+xml": search_still(search.line(), search.ranked(), search.metrics, search.params, _best(search)),
        "text/plain": search.text(),
    }


def _best(search: Search) -> set[int]:
    return {trial.number for trial in search.best_now()}
