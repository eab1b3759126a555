"""What one browser is told: everything once, then what changed. Knows of no socket but a function that sends.

Nothing is queued. The feed remembers what has changed and how far each subscription has been told; when the client has
taken the last message, the next is made of what there is then. A slow client gets fewer, newer messages.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from ..errors import DtfError, InvalidInput, NotFound
from ..schema.api import (
    ClustersMessage,
    EventsMessage,
    RunsMessage,
    SeriesMessage,
    ServerMessage,
    SocketError,
    Subscribe,
    Unsubscribe,
    decode_client_message,
)
from ..schema.base import encode_json, to_plain

if TYPE_CHECKING:
    from ..backend.fleet import Fleet
    from ..backend.metrics.decimate import SeriesCursor
    from ..backend.metrics.hub import Hub

ROUND_S = 0.1
"""At most one round of messages in this time."""
EVENTS_PER_MESSAGE = 500
MAX_SUBSCRIPTIONS = 64


def events_message(hub: Hub, run_id: str, after: int, limit: int | None = None) -> EventsMessage:
    """At most ``limit`` events of a run after ``after``, as JSON knows them. Raises NotFound."""
    record = hub.record(run_id)
    next_seq = record.next_seq  # before the events: what comes meanwhile is told the next time
    events = [(seq, event) for seq, event in hub.events(run_id, after) if seq < next_seq]
    if limit is not None and len(events) > limit:
        events = events[:limit]
        next_seq = events[-1][0] + 1
    plain = [{**to_plain(event), "seq": seq} for seq, event in events]
    return EventsMessage(run=run_id, events=plain, next_seq=max(next_seq, after + 1))


class _Subscription:
    """How far one run has been told."""

    def __init__(self, asked: Subscribe) -> None:
        self.asked = asked
        self.after = asked.after
        self.told = False
        self.cursors: dict[tuple[str, str], SeriesCursor] = {}

    def messages(self, hub: Hub) -> Iterator[ServerMessage]:
        """What is new of the run. Runs in a thread; the next is made when the one before has been taken."""
        from ..backend.metrics.decimate import SeriesCursor

        run = self.asked.run
        while True:
            message = events_message(hub, run, self.after, EVENTS_PER_MESSAGE)
            self.after = message.next_seq - 1
            if message.events or not self.told:
                self.told = True
                yield message
            if len(message.events) < EVENTS_PER_MESSAGE:
                break
        frames = []
        for (metric, task), series in hub.lines(run).items():
            cursor = self.cursors.get((metric, task))
            if cursor is None:
                cursor = SeriesCursor(metric, task, self.asked.width, self.asked.x)
                self.cursors[metric, task] = cursor
            if (frame := cursor.next(series)) is not None:
                frames.append(frame)
        if frames:
            yield SeriesMessage(run=run, frames=frames)


class Feed:
    """One browser's view of the fleet. ``send`` returns when the client can take more."""

    def __init__(self, fleet: Fleet, send: Callable[[bytes], Awaitable[None]]) -> None:
        self._fleet = fleet
        self._hub = fleet.hub
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._wake = asyncio.Event()
        self._clusters_changed = True
        self._changed_runs: set[str] = set()
        self._due: set[str] = set()  # subscribed runs that have something new
        self._subscriptions: dict[str, _Subscription] = {}
        self._errors: list[SocketError] = []

    async def run(self) -> None:
        """Tell everything, then what changes, until cancelled."""
        leave_hub = self._hub.subscribe(self._on_run)
        leave_fleet = self._fleet.subscribe(self._on_clusters)
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
            leave_hub()
            leave_fleet()

    def receive(self, data: bytes | str) -> None:
        """Follow a message of the client; one that cannot be followed is answered with a SocketError."""
        try:
            message = decode_client_message(data)
            if isinstance(message, Unsubscribe):
                self._subscriptions.pop(message.run, None)
            else:
                self._subscribe(message)
        except DtfError as error:
            self._refuse(str(error))

    def _subscribe(self, asked: Subscribe) -> None:
        if asked.run not in self._subscriptions and len(self._subscriptions) >= MAX_SUBSCRIPTIONS:
            raise InvalidInput(
                f"A socket has at most {MAX_SUBSCRIPTIONS} subscriptions. Received: one more, for {asked.run!r:.100}"
            )
        self._subscriptions[asked.run] = _Subscription(asked)
        self._due.add(asked.run)
        self._wake.set()

    def _refuse(self, message: str, run: str = "") -> None:
        if len(self._errors) < MAX_SUBSCRIPTIONS:  # who sends nonsense without reading gets no more than that
            self._errors.append(SocketError(message=message, run=run))
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

    # -- telling -------------------------------------------------------------------------------------------------

    async def _round(self) -> None:
        errors, self._errors = self._errors, []
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

    async def _tell_runs(self) -> None:
        changed, self._changed_runs = self._changed_runs, set()
        message = RunsMessage(runs=[])
        for run in changed:
            try:
                message.runs.append(self._hub.info(run))
            except NotFound:
                message.removed.append(run)
                self._subscriptions.pop(run, None)
        await self._tell(message)

    async def _tell_subscription(self, run: str) -> None:
        subscription = self._subscriptions.get(run)
        if subscription is None:
            return
        messages = subscription.messages(self._hub)
        try:
            while (message := await asyncio.to_thread(next, messages, None)) is not None:
                if self._subscriptions.get(run) is not subscription:
                    return  # asked anew, or no more, in the meantime
                await self._tell(message)
        except DtfError as error:
            self._subscriptions.pop(run, None)
            self._refuse(str(error), run)

    async def _tell(self, message: ServerMessage) -> None:
        await self._send(encode_json(message))
