"""Displays runs, clusters and searches in a notebook or a terminal (implements ``client/display_hooks.py``)."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from . import kernel_cluster

if TYPE_CHECKING:
    from ..client.cluster import Cluster
    from ..client.run import Run
    from ..client.run_trace import Trace
    from ..client.search.search import Search

_SENT_S = 0.2


def here() -> Anywhere:
    """Return the implementation for this process at this moment."""
    return Notebook() if kernel_cluster.kernel() is not None else Anywhere()


class Anywhere:
    """Shows lines of text, with or without a terminal. For IPython, the MIME bundles are the same as in a notebook."""

    def show(self, run: Run) -> None:
        from ..client import terminal, wording
        from ..client.run_words import describe

        terminal.say(wording.without_control(describe(run.info)))

    def show_search(self, search: Search) -> None:
        from ..client import terminal

        terminal.say(search.text())

    def follow_search(self, search: Search) -> None:
        from ..client.search.watching import in_terminal

        in_terminal(search)

    @contextlib.contextmanager
    def followed(self, run: Run) -> Iterator[Callable[[str], None]]:
        from ..client.progress import TerminalProgress

        with TerminalProgress(run, sys.stderr) as progress:
            yield progress.line

    def sending_shown(self, run: Run) -> AbstractContextManager[object]:
        from ..client.progress import TerminalProgress

        return TerminalProgress(run, sys.stderr)

    def output_shown(self, run: Run) -> AbstractContextManager[object]:
        from ..client.streamed_output import StreamedOutput

        return StreamedOutput(run)

    def widget(self, run: Run) -> Any:
        from .run_widget import RunWidget

        return RunWidget(run)

    def run_bundle(self, run: Run) -> dict[str, Any]:
        from .display import run_bundle

        return run_bundle(run)

    def cluster_bundle(self, cluster: Cluster) -> dict[str, Any]:
        from .display import cluster_bundle

        return cluster_bundle(cluster)

    def trace_bundle(self, trace: Trace) -> dict[str, Any]:
        from .trace_svg import trace_bundle

        return trace_bundle(trace)

    def choose(self, cluster: str, owned: bool) -> None:
        pass

    def returns(self, cluster: str) -> bool:
        return False


class Notebook(Anywhere):
    """Shows live displays in the output of a notebook's cell."""

    def show(self, run: Run) -> None:
        from .display import Shown

        Shown(run)

    def show_search(self, search: Search) -> None:
        from .search_display import SearchShown

        SearchShown(search)

    def follow_search(self, search: Search) -> None:
        from .search_display import SearchShown

        shown = SearchShown(search)
        try:
            search.wait()
        finally:
            shown.finish()

    @contextlib.contextmanager
    def followed(self, run: Run) -> Iterator[Callable[[str], None]]:
        from ..client.waiting import say, warnings_told
        from .display import Shown

        shown = Shown(run)
        try:
            with warnings_told(run, say):
                yield say
        finally:
            shown.finish()

    def sending_shown(self, run: Run) -> AbstractContextManager[object]:
        from IPython.display import display

        from ..client.following import Follower

        handle = display({"text/plain": ""}, raw=True, display_id=True)
        return Follower(
            run,
            lambda: handle.update({"text/plain": f"{run.info.name}: {run.info.message or 'sent'}"}, raw=True),
            _SENT_S,
        )

    def output_shown(self, run: Run) -> AbstractContextManager[object]:
        from .output_blocks import BlockedOutput

        return BlockedOutput(run)

    def choose(self, cluster: str, owned: bool) -> None:
        kernel_cluster.choose(cluster, owned)

    def returns(self, cluster: str) -> bool:
        return kernel_cluster.outlives_kernel(cluster)
