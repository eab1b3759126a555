"""The messages sent to one browser: the complete state once, then changes. Independent of sockets.

Messages are not queued. The feed records what has changed, and how much of each subscription has been sent. When the
client has accepted a message, the next one is created from the state at that time, so a slow client receives fewer,
more recent messages.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from ..errors import DtfError, InvalidInput, NotFound, Unavailable
from ..schema.base import encode_json, to_plain
from ..schema.events import Logged
from ..schema.run import Progress, RunInfo
from ..schema.socket_messages import (
    ClustersMessage,
    EventsMessage,
    RunsMessage,
    ServerMessage,
    Show,
    SocketError,
    Subscribe,
    Unsubscribe,
    decode_client_message,
)

if TYPE_CHECKING:
    from ..backend.records.hub import Hub
    from ..backend.records.shared_plots import Plot
    from ..backend.viewer.fleet import Fleet

ROUND_S = 0.1
"""The shortest time between two rounds of messages, in seconds."""
FIGURES_S = 1.0
"""The shortest time in seconds between two summaries of a run that differ only in its progress and latest values."""
EVENTS_PER_MESSAGE = 500
OUTPUT_PER_MESSAGE = 256 << 10
"""The largest number of characters of output in the events of one message, unless a single event has more."""
LOOK_FOR_MARKS_S = 2.0
AGAIN_S = 2.0
"""The delay in seconds before a run is read again that could not be read, for example because the store is busy."""
MAX_SUBSCRIPTIONS = 64
MAX_ERRORS = 64
"""The number of pending error messages at which no further message of the client is read. Errors are not dropped."""


def events_message(hub: Hub, run_id: str, after: int) -> EventsMessage:
    """Return the events of a run after the number ``after``, as many as fit into one message. Raises NotFound."""
    record = hub.record(run_id)
    next_seq = record.next_seq  # read before the events: later events are sent next time
    events = [(seq, event) for seq, event in hub.events(run_id, after, EVENTS_PER_MESSAGE) if seq < next_seq]
    count = size = 0
    while count < len(events) and size < OUTPUT_PER_MESSAGE:
        event = events[count][1]
        size += sum(map(len, event.lines)) if isinstance(event, Logged) else 0
        count += 1
    if count < len(events) or count == EVENTS_PER_MESSAGE:
        next_seq = events[count - 1][0] + 1
    plain = [{**to_plain(event), "seq": seq} for seq, event in events[:count]]
    return EventsMessage(run=run_id, events=plain, next_seq=max(next_seq, after + 1))


def _without_figures(info: RunInfo) -> int:
    """Return a hash of a run's summary without what changes with every point."""
    rest = msgspec.structs.replace(
        info,
        progress=Progress(),
        latest={},
        headline={},
        best={},
        sparkline=[],
        sparkline_steps=[],
        next_seq=0,
        points_seq=0,
    )
    return hash(encode_json(rest))


class _Subscription:
    """A subscription to one run, which records how much of the run has been sent."""

    def __init__(self, asked: Subscribe) -> None:
        self.asked = asked
        self.after = asked.after
        self.told = False
        self.metrics = asked.metrics
        self.has_newest = True
        self.problem = ""
        """Why the run cannot be read at the moment."""
        self._plots: dict[str, Plot] = {}
        self._versions: dict[str, int] = {}  # of each metric's plot, including those no longer shown

    def messages(self, hub: Hub) -> Iterator[bytes]:
        """Yield the run's changes as encoded messages, each after the previous one was accepted. Runs in a thread."""
        from ..backend.records.shared_plots import series_message

        run = self.asked.run
        while True:
            known = hub.record(run).next_seq
            message = events_message(hub, run, self.after)
            self.after = message.next_seq - 1
            if message.events or not self.told:
                self.told = True
                yield encode_json(message)
            if message.next_seq >= known:
                break
        if frames := self._frames(hub):
            yield series_message(run, frames)

    def _frames(self, hub: Hub) -> list[bytes]:
        """Return the changes in the plots that are shown."""
        from ..backend.records.decimate import check_view
        from ..backend.records.shared_plots import shared_plot

        run, width, x = self.asked.run, self.asked.width, self.asked.x
        check_view(width, x)
        found: list[bytes] = []
        versions: dict[str, int] = {}  # kept only if all plots could be read, because nothing is sent otherwise
        self.has_newest = True
        for metric in hub.record(run).metrics if self.metrics is None else self.metrics:
            plot = self._plots.get(metric)
            if plot is None:
                plot = self._plots[metric] = shared_plot(hub, run, metric, width, x)
            versions[metric], frames, is_newest = plot.since(self._versions.get(metric, 0))
            self.has_newest = self.has_newest and is_newest
            found += frames
        self._versions |= versions
        return found


class Feed:
    """One browser's view of the fleet. ``send`` sends a message, and returns when the client can accept another one."""

    def __init__(self, fleet: Fleet, send: Callable[[bytes], Awaitable[None]]) -> None:
        self._fleet = fleet
        self._hub = fleet.hub
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._wake = asyncio.Event()
        self._clusters_changed = True
        self._changed_runs: set[str] = set()
        self._due: set[str] = set()  # subscribed runs that have changed
        self._told: dict[str, tuple[float, int]] = {}  # when a summary was sent, and what it said without figures
        self._to_tell: set[str] = set()  # runs whose new figures are sent later
        self._subscriptions: dict[str, _Subscription] = {}
        self._errors: list[SocketError] = []
        self._has_room = asyncio.Event()  # for another error
        self._has_room.set()

    async def run(self) -> None:
        """Send the complete state, then changes, until cancelled."""
        leave_hub = self._hub.subscribe(self._on_run)
        leave_fleet = self._fleet.subscribe(self._on_clusters)
        looking = asyncio.create_task(self._look_for_marks())
        try:
            await self._tell_clusters()
            await self._tell(RunsMessage(runs=await asyncio.to_thread(self._hub.runs), all=True))
            while True:
                await self._wake.wait()
                self._wake.clear()
                began = self._loop.time()
                await self._round()
                await asyncio.sleep(ROUND_S - (self._loop.time() - began))
        finally:
            looking.cancel()
            self._has_room.set()
            leave_hub()
            leave_fleet()

    async def has_room(self) -> None:
        """Wait until another error can be stored: a client that sends invalid messages must also read the errors."""
        await self._has_room.wait()

    def receive(self, data: bytes | str) -> None:
        """Handle a message from the client. An invalid message is answered with a SocketError."""
        try:
            message = decode_client_message(data)
            if isinstance(message, Unsubscribe):
                self._subscriptions.pop(message.run, None)
            elif isinstance(message, Show):
                self._show(message)
            else:
                self._subscribe(message)
        except DtfError as error:
            self._refuse(str(error))

    def _subscribe(self, asked: Subscribe) -> None:
        if asked.run not in self._subscriptions and len(self._subscriptions) >= MAX_SUBSCRIPTIONS:
            raise InvalidInput(
                f"A socket must have at most {MAX_SUBSCRIPTIONS} subscriptions, got one more, for {asked.run!r:.100}"
            )
        self._subscriptions[asked.run] = _Subscription(asked)
        self._due.add(asked.run)
        self._wake.set()

    def _show(self, asked: Show) -> None:
        if subscription := self._subscriptions.get(asked.run):
            subscription.metrics = asked.metrics
            self._due.add(asked.run)
            self._wake.set()

    def _refuse(self, message: str, run: str = "") -> None:
        self._errors.append(SocketError(message=message, run=run))
        if len(self._errors) >= MAX_ERRORS:
            self._has_room.clear()
        self._wake.set()

    # -- what changed --------------------------------------------------------------------------------------------

    def _on_clusters(self) -> None:
        self._clusters_changed = True
        self._wake.set()

    def _on_run(self, run_id: str) -> None:
        if threading.get_ident() == self._thread:
            self._mark(run_id)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._mark, run_id)

    def _mark(self, run_id: str) -> None:
        self._changed_runs.add(run_id)
        if run_id in self._subscriptions:
            self._due.add(run_id)
        self._wake.set()

    async def _look_for_marks(self) -> None:
        """Look for names and tags that kernels and commands have set, because there are no events about them."""
        while True:
            await asyncio.sleep(LOOK_FOR_MARKS_S)
            await asyncio.to_thread(self._hub.look_for_marks)

    def _mark_due(self, run_id: str) -> None:
        self._due.add(run_id)
        self._wake.set()

    # -- sending -------------------------------------------------------------------------------------------------

    async def _round(self) -> None:
        errors, self._errors = self._errors, []
        self._has_room.set()
        for error in errors:
            await self._tell(error)
        if self._clusters_changed:
            await self._tell_clusters()
        if self._changed_runs:
            await self._tell_runs()
        due, self._due = self._due, set()
        for run in due:
            await self._tell_subscription(run)

    async def _tell_clusters(self) -> None:
        self._clusters_changed = False
        await self._tell(ClustersMessage(clusters=self._fleet.clusters()))

    def _is_worth_telling(self, info: RunInfo) -> bool:
        """Return whether to send a run's summary now. If not, it is sent when its figures are due.

        Each summary makes the browser render its lists of runs again.
        """
        if info.state.is_final:
            self._told.pop(info.id, None)
            return True
        now, rest = self._loop.time(), _without_figures(info)
        at, before = self._told.get(info.id, (-math.inf, 0))
        if rest == before and (wait_s := at + FIGURES_S - now) > 0:
            if info.id not in self._to_tell:
                self._to_tell.add(info.id)
                self._loop.call_later(wait_s, self._figures_are_due, info.id)
            return False
        self._told[info.id] = now, rest
        return True

    def _figures_are_due(self, run_id: str) -> None:
        self._to_tell.discard(run_id)
        self._changed_runs.add(run_id)
        self._wake.set()

    async def _tell_runs(self) -> None:
        changed, self._changed_runs = self._changed_runs, set()
        subscribed = {run: self._subscriptions.get(run) for run in changed}
        message = RunsMessage(runs=[])
        for run, info in await asyncio.to_thread(lambda: [(each, self._info(each)) for each in changed]):
            if isinstance(info, Unavailable):
                self._loop.call_later(AGAIN_S, self._mark, run)
            elif info is None:
                message.removed.append(run)
                self._told.pop(run, None)
                if self._subscriptions.get(run) is subscribed[run]:  # not subscribed again in the meantime
                    self._subscriptions.pop(run, None)
            elif info.marks.deleted is not None:
                message.removed.append(run)
            elif self._is_worth_telling(info):
                message.runs.append(info)
        if message.runs or message.removed:
            await self._tell(message)

    def _info(self, run: str) -> RunInfo | Unavailable | None:
        """Return a run's summary, None if there is no such run, or the error if it cannot be read at the moment."""
        try:
            return self._hub.info(run)
        except NotFound:
            return None
        except Unavailable as error:
            return error

    async def _tell_subscription(self, run: str) -> None:
        subscription = self._subscriptions.get(run)
        if subscription is None:
            return
        messages = subscription.messages(self._hub)
        try:
            while (message := await asyncio.to_thread(next, messages, None)) is not None:
                if self._subscriptions.get(run) is not subscription:
                    return  # subscribed again or unsubscribed in the meantime
                await self._send(message)
            subscription.problem = ""
            if not subscription.has_newest:
                self._mark_due(run)
        except DtfError as error:
            if self._subscriptions.get(run) is not subscription:
                return
            if isinstance(error, Unavailable):
                self._loop.call_later(AGAIN_S, self._mark_due, run)
            else:
                del self._subscriptions[run]
            if str(error) != subscription.problem:
                subscription.problem = str(error)
                self._refuse(subscription.problem, run)

    async def _tell(self, message: ServerMessage) -> None:
        await self._send(encode_json(message))
