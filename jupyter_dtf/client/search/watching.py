"""Waits for a search in the foreground, showing a table that is rewritten, or a line for each new best trial."""

from __future__ import annotations

import os
import sys
import time

from ...errors import NotFound
from .. import display_hooks, terminal
from ..waiting import SECOND_INTERRUPT_S, Detached, say
from .search import Search

_REFRESH_S = 0.2
_SECOND_S = 1.0
_MOST_ROWS = 12
_REST = 20
"""After drawing, pause for this many times as long as drawing took."""
_CLEAR_BELOW = "\r\x1b[J"


def watch(search: Search) -> None:
    """Show a search until it has ended. A first interrupt detaches from it, a second one soon after stops it.

    Raises KeyboardInterrupt after either.
    """
    try:
        display_hooks.here().follow_search(search)
    except KeyboardInterrupt:
        say(f"Interrupted: interrupt again within {SECOND_INTERRUPT_S:g} s to stop the search.")
    else:
        return
    try:
        search.wait(SECOND_INTERRUPT_S)
    except TimeoutError:
        raise Detached(
            "detached; the search continues as long as this process is running. Return to it with "
            "cluster.searches[0], or stop it with cluster.searches[0].stop()"
        ) from None
    except KeyboardInterrupt:
        say("Stopping the search.")
        search.stop()
        search.wait()
    raise Detached(f"the search {search.name} is {search.status}; it is available as cluster.searches[0]") from None


def in_terminal(search: Search) -> None:
    """Show a search on standard error until it has ended.

    In a terminal, this is a table of the trials; otherwise, a line for each new best trial.
    """
    stream = sys.stderr
    rewrites = stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"
    best, above, seen = None, 0, 0
    while True:
        is_over = search.wait_for_change(_SECOND_S if rewrites else 60.0, seen)
        seen = search.changes  # before drawing: what changes in the meantime is drawn next
        began = time.monotonic()
        if rewrites:
            above = _draw(search, above)
        else:
            now = _best_number(search)
            if is_over or now != best:
                terminal.write(stream, search.line() + "\n")
            best = now
        if is_over:
            return
        # Summarizing thousands of trials takes a while, and the search itself needs this process in the meantime.
        time.sleep(max(_REFRESH_S, _REST * (time.monotonic() - began)))


def _draw(search: Search, above: int) -> int:
    """Write the table over the previous one, which had ``above`` lines. Return its number of lines."""
    columns, rows = os.get_terminal_size(sys.stderr.fileno())
    most = max(0, min(_MOST_ROWS, (rows or 24) - 5))
    text = [line[: (columns or 80) - 1] for line in search.text(most).splitlines()]
    back = f"\x1b[{above}A" if above else ""
    terminal.write(sys.stderr, back + _CLEAR_BELOW + "".join(f"{line}\n" for line in text))
    return len(text)


def _best_number(search: Search) -> int | None:
    try:
        return search.best.number
    except NotFound:
        return None
