"""Waiting for a search in the foreground: a line that is rewritten, or a line for each new best trial."""

from __future__ import annotations

import os
import sys
import time

from ...errors import NotFound
from .. import terminal
from ..waiting import SECOND_INTERRUPT_S, Detached, say
from .search import Search

_REFRESH_S = 0.2
_CLEAR = "\r\x1b[K"


def watch(search: Search) -> None:
    """Show a search until it has ended. The first interrupt leaves it to itself, a second one soon after stops it.

    Raises KeyboardInterrupt after either.
    """
    try:
        _show_until_end(search)
    except KeyboardInterrupt:
        say(f"Interrupted: again within {SECOND_INTERRUPT_S:g} s stops the search.")
    else:
        return
    try:
        search.wait(SECOND_INTERRUPT_S)
    except TimeoutError:
        raise Detached(
            "detached; the search goes on while this process does. It is cluster.searches[0], and "
            "cluster.searches[0].stop() stops it"
        ) from None
    except KeyboardInterrupt:
        say("Stopping the search.")
        search.stop()
        search.wait()
    raise Detached(f"the search {search.name} is {search.status}; it is cluster.searches[0]") from None


def _show_until_end(search: Search) -> None:
    stream = sys.stderr
    rewrites = stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"
    best = None
    while True:
        is_over = search.wait_for_change(60.0)
        if rewrites:
            width = os.get_terminal_size(stream.fileno()).columns or 80
            terminal.write(stream, _CLEAR + search.line()[: width - 1] + "\n" * is_over)
        else:
            now = _best_number(search)
            if is_over or now != best:
                terminal.write(stream, search.line() + "\n")
            best = now
        if is_over:
            return
        time.sleep(_REFRESH_S)


def _best_number(search: Search) -> int | None:
    try:
        return search.best.number
    except NotFound:
        return None
