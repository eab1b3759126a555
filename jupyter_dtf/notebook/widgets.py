"""The common part of the run and cluster widgets: traits and views that follow a state until it is final."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import html
import logging
import math
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..client import wording
from ..errors import DtfError, Unavailable
from . import kernel_cluster

try:
    import ipywidgets
except ModuleNotFoundError as _missing:
    if _missing.name != "ipywidgets":
        raise
    raise Unavailable("Widgets need ipywidgets, which is not installed: pip install ipywidgets") from None

__all__ = ["LiveWidget", "Seen", "finite", "ipywidgets", "text_of"]

logger = logging.getLogger(__name__)

REFRESH_S = 0.2
_DRAWING = 5
"""The pause between drawings, as a multiple of the time that drawing took: a view uses at most a sixth of a core."""


class Seen(NamedTuple):
    """The current state of a run or cluster, and how to draw it."""

    traits: Mapping[str, Any]
    draw: Callable[[], None]
    """Draws the state in the widget's children."""
    is_last: bool
    """Whether this state is final."""


class LiveWidget(ipywidgets.VBox):
    """A widget whose traits follow a run or a cluster until it has ended, or until ``close()``.

    Traits change on the kernel's event loop, like the values of all widgets: between cells, and during ``wait``.
    Observers are called there and print into the cell that created the widget. Without an event loop (in a script),
    this happens in the widget's own thread. The view is always drawn in that thread, and therefore also while a cell is
    running.

    A subclass creates its children and then calls ``_begin``.
    """

    # Class attributes, because Python also closes a widget whose constructor has raised an error.
    _thread: threading.Thread | None = None
    _handles: Any = ()
    _shipped: tuple[Any, ...] = ()
    _taking = False

    def __init__(self, children: list[Any], options: Mapping[str, Any]) -> None:
        super().__init__(children, **options)
        self._shipped = self.children
        self._loop = _running_loop()
        self._on_loop = contextvars.copy_context()  # which the kernel uses to assign output to a cell
        self._lock = threading.Lock()
        self._pending: Mapping[str, Any] | None = None
        self._given = threading.Event()
        self._changed = threading.Event()
        self._closing = threading.Event()
        self._showing = threading.Lock()
        self._has_ended = False  # whether the thread has ended
        self._is_over = False
        self._handles = []

    # -- for subclasses -----------------------------------------------------------------------------------------------

    def _subscribe(self) -> Callable[[], None]:
        """Arrange for ``_changed`` to be set after each change. Return a function that undoes this."""
        raise NotImplementedError

    def _look(self) -> Seen:
        """Return the current state. Called in the widget's thread, except for the first time."""
        raise NotImplementedError

    def _still(self) -> dict[str, Any]:
        """Return a MIME bundle of the current state, for frontends without a kernel."""
        raise NotImplementedError

    def _said(self, text: str) -> None:
        """Show why a button's action failed."""
        raise NotImplementedError

    # -- public -------------------------------------------------------------------------------------------------------

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the run or cluster has ended and its final state is shown.

        Traits change and observers are called in the meantime, even within a cell.

        Args:
            timeout_s: The longest time to wait, in seconds. None: no limit.

        Returns:
            False if ``timeout_s`` seconds have passed; otherwise, and for a closed widget, True.
        """
        ends = None if timeout_s is None else time.monotonic() + timeout_s
        thread = self._thread
        if thread is None:
            return True
        if self._loop is not None and _running_loop() is self._loop:
            while not self._has_ended:
                left_s = None if ends is None else ends - time.monotonic()
                if (left_s is not None and left_s <= 0) or not self._given.wait(left_s):
                    return False
                self._given.clear()
                self._take_pending()
            self._take_pending()
        thread.join(None if ends is None else max(ends - time.monotonic(), 0.0))
        return not thread.is_alive()

    def close(self) -> None:
        """Stop following the run or cluster, which is not affected itself.

        Traits keep their values, and cells that show the widget keep a picture.
        """
        if self._thread is not None:
            self._closing.set()
            self._changed.set()
            if threading.current_thread() is not self._thread:  # an observer may close the widget from that thread
                self._thread.join()
            self._thread = None
        for child in _with_descendants(self._shipped):
            child.close()
        super().close()
        if self._handles and not self._is_over:
            with contextlib.suppress(DtfError):  # the run or cluster is no longer known
                self._end_displays()

    def _ipython_display_(self, **_options: Any) -> None:
        if kernel_cluster.kernel() is None:
            raise NotImplementedError  # IPython's terminal shows the plain text
        from IPython.display import display

        with self._showing:
            # With a display id, so that the picture that a notebook saves can be replaced by the final one.
            self._handles.append(display(self._bundle(), raw=True, display_id=True))

    # -- internal -----------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        unsubscribe = self._subscribe()
        try:
            self._take(self._look().traits)
        except BaseException:
            unsubscribe()
            self.close()
            raise
        self._unsubscribe = unsubscribe
        self._changed.set()
        # The thread does not have this cell's context: its messages belong to whichever cell is running, because
        # nbclient ignores messages that belong to other cells.
        self._thread = threading.Thread(target=self._follow, name="dtf-widget", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        try:
            try:
                self._show_changes()
            finally:
                self._unsubscribe()
        except Unavailable as error:  # the kernel is ending
            logger.debug("%s has stopped following: %s", type(self).__name__, error)
        except Exception as error:
            logger.warning("%s has stopped following: %s: %s", type(self).__name__, type(error).__name__, error)
        finally:
            self._has_ended = True
            self._given.set()

    def _show_changes(self) -> None:
        while not self._closing.is_set():
            self._changed.wait()
            self._changed.clear()
            if self._closing.is_set() or self._show():
                return

    def _show(self) -> bool:
        """Publish and draw the current state, then pause for a while. Return whether it is final."""
        began = time.monotonic()
        seen = self._look()
        seen.draw()
        self._give(seen.traits)
        if seen.is_last:
            self._end_displays()
        else:
            self._closing.wait(max(REFRESH_S, _DRAWING * (time.monotonic() - began)))
        return seen.is_last

    def _give(self, traits: Mapping[str, Any]) -> None:
        if self._loop is None:
            self._take(traits)
            return
        with self._lock:
            is_on_its_way = self._pending is not None
            self._pending = traits
        self._given.set()
        if not is_on_its_way:
            self._loop.call_soon_threadsafe(self._take_pending, context=self._on_loop)

    def _take_pending(self) -> None:
        with self._lock:
            traits, self._pending = self._pending, None
        if traits is not None:
            self._take(traits)

    def _take(self, traits: Mapping[str, Any]) -> None:
        """Set all traits before the first observer is called, and notify the browser once."""
        self._taking = True
        try:
            with self.hold_sync(), self.hold_trait_notifications():
                for name, value in traits.items():
                    self.set_trait(name, value)
        finally:
            self._taking = False

    def send_state(self, key: Any = None) -> None:
        """Send the state as in any widget, but not as output of the creating cell.

        The traits change in the context of that cell, into which observers print (see ``_begin``).
        """
        send = super().send_state
        if self._taking:
            contextvars.Context().run(send, key)
        else:
            send(key)

    def notify_change(self, change: Any) -> None:
        """Notify observers as in any widget. If one raises an error, show the error and still call the others."""
        try:
            super().notify_change(change)
        except Exception:
            if not self._taking:
                raise
            _show_traceback()

    def _ask(self, what: Callable[[], object]) -> None:
        """Perform a button's action without blocking the kernel. Errors are shown in the widget."""

        def ask() -> None:
            try:
                what()
            except (DtfError, TimeoutError) as error:
                self._said(str(error))
            except Exception as error:
                self._said(f"{type(error).__name__}: {error}")

        self._said("")
        threading.Thread(target=ask, name="dtf-widget-ask", daemon=True).start()

    def _bundle(self) -> dict[str, Any]:
        """Return the MIME bundle that a cell saves: once the final state is reached, a picture.

        A saved widget would not be live. If the user has added children, the bundle remains a widget.
        """
        if self.comm is None or (self._is_over and self.children == self._shipped):
            return self._still()
        return {**self._still(), **super()._repr_mimebundle_()}

    def _end_displays(self) -> None:
        with self._showing:
            self._is_over = True
            bundle = self._bundle()
            for handle in self._handles:
                handle.update(bundle, raw=True)


def finite(value: Any, _widget: Any = None) -> Any:
    """Return plain data that can be encoded as JSON: numbers that are not finite become ``None``."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    return [finite(each) for each in value] if isinstance(value, list) else value


def text_of(text: str) -> str:
    """Return user text, escaped for HTML."""
    return html.escape(wording.without_control(text))


def _running_loop() -> asyncio.AbstractEventLoop | None:
    with contextlib.suppress(RuntimeError):
        return asyncio.get_running_loop()
    return None


def _with_descendants(widgets: Any) -> list[Any]:
    return [each for widget in widgets for each in (*_with_descendants(getattr(widget, "children", ())), widget)]


def _show_traceback() -> None:
    """Show the current traceback, as ipywidgets does for observers of changes in the browser."""
    kernel = kernel_cluster.kernel()
    if kernel is None:
        traceback.print_exc()
    else:
        kernel.shell.showtraceback()
