"""A ``ps`` task, which holds its share of the variables, applies gradients, and answers workers' requests.

A rule (``rules``) determines when a gradient is applied.

One thread per worker handles the worker's requests one at a time. All shared state is changed under one condition
variable. If a worker is lost before it has finished training, synchronous training fails; an asynchronous worker may
reconnect.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from .....errors import DtfError
from .....schema.strategy import ParameterServer
from ...context import peer_lost
from ...model import keras_io, set_later
from ...trace import marked
from ..checks import Asked
from ..job import FitJob
from ..models import configure_keras, job_model
from . import payloads
from .barrier import Meeting
from .checks import ServedChecks
from .kept_part import KeptPart
from .members import Member, Members, Visit
from .messages import (
    AnyWord,
    Build,
    CopyFile,
    Counts,
    Decide,
    Done,
    Fetch,
    GetKept,
    GetStart,
    GetState,
    Held,
    Hold,
    Join,
    Keep,
    Kept,
    Leave,
    Meet,
    Push,
    Refused,
    Release,
    Replace,
    SetAttributes,
    SetState,
    Start,
    State,
    Sum,
    Values,
)
from .rules import Asynchronous, Following, Rule, Synchronous, Updates
from .server_addresses import Places
from .shard import Gradient, Shard, mean
from .spec import from_plain, pieces_of, wire_dtype
from .wire import STRANGERS, Bytes, Channel, Reader, accept

Answer = tuple[AnyWord, list[npt.NDArray[Any]]]


class _Over(Exception):
    """Raised in a thread after another thread has failed, to end this thread without reporting a second error."""


class Server:
    """Serves one run. ``run`` returns when all workers have left and disconnected."""

    def __init__(self, job: FitJob, ctx: Any) -> None:
        self._job = job
        self._places = Places(ctx)
        self._ctx = ctx
        self._index = self._places.server
        self._changed = threading.Condition()
        self._failure: BaseException | None = None
        self._members = {rank: Member(task) for rank, task in enumerate(self._places.workers)}
        self._all = Members(self._members)
        self._may_come_back = job.strategy.may_rejoin
        self._most: tuple[int, ...] | None = None  # during Hold: the number of each worker's last gradient to apply
        self._kept: npt.NDArray[np.float64] = np.zeros(0)
        self._rule = _rule(job.strategy, self._index, len(self._members))
        self._followers: list[Channel] = []
        self._shard: Shard | None = None
        self._gradients: dict[int, Gradient] = {}
        self._replacements: dict[int, npt.NDArray[Any]] = {}
        self._examples = 0
        self._stop_wanted = False
        self._stop = False
        self._meeting = Meeting(len(self._members))
        self._waits: dict[int, tuple[str, Callable[[], bool]]] = {}
        """For each worker that waits for the others, if workers are in step: what it does, and the condition that ends
        the wait.
        """
        self._stuck = ""
        """Why no worker can continue; empty if they can. Each worker is notified, and its disconnection then does not
        count as a loss.
        """
        self._part = KeptPart()
        self._moving: npt.NDArray[np.float64] | None = None
        self._moving_workers = 0
        self._is_taken = False  # whether the chief has fetched the result, so that no worker can contribute any more

    def run(self) -> None:
        """Serve the run until all workers have left.

        Raises any error of this task's threads, and RuntimeError if a worker is lost before it has finished training
        (the message names the worker).
        """
        configure_keras(self._job.keras_config)
        self._model = job_model(self._job, ServedChecks(), Asked.of(self._job))
        if isinstance(self._rule, Synchronous):
            for server in range(1, len(self._places.servers)):
                self._followers.append(self._places.reach(server))
                self._followers[-1].send(Join(self._ctx.rank, shares_memory=False))
        listeners = self._places.listen()
        for listener in listeners:
            self._in_thread(self._receive_tasks, listener)
        self._in_thread(self._hear_of_a_stop)
        self._ctx.on_without = self._look_again
        with self._changed:
            self._changed.wait_for(lambda: self._failure or self._have(lambda member: member.has_gone))
        for listener in listeners:
            listener.shutdown(socket.SHUT_RDWR)  # ends the pending accept()
        for follower in self._followers:
            follower.close()
        if self._failure is not None:
            raise self._failure

    # -- threads ------------------------------------------------------------------------------------------------

    def _in_thread(self, function: Callable[..., None], *args: Any) -> None:
        def guarded() -> None:
            try:
                function(*args)
            except _Over:
                pass
            except BaseException as error:
                with self._changed:
                    self._failure = self._failure or error
                    self._changed.notify_all()

        threading.Thread(target=guarded, name="dtf-ps", daemon=True).start()

    def _receive_tasks(self, listener: socket.socket) -> None:
        with listener:
            while True:
                try:
                    connected, _ = listener.accept()
                except OSError:  # shut down: all workers have disconnected
                    return
                self._in_thread(self._receive_task, connected)

    def _hear_of_a_stop(self) -> None:
        """Wake up waiting threads when the run is stopped, because no lost worker reconnects after a stop."""
        self._ctx.stop_requested.wait()
        self._look_again()

    def _look_again(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _have(self, done: Callable[[Member], bool]) -> bool:
        """Return whether ``done`` is true of all workers, except those that will not reconnect.

        If the run is being stopped, no lost worker will reconnect; otherwise, only the workers in ``ctx.without`` will
        not, because no resources are available for them.
        """
        stops, without = self._ctx.should_stop, self._ctx.without
        lost = {rank for rank in self._rule.away if stops or self._members[rank].task in without}
        return all(done(member) for rank, member in self._members.items() if rank not in lost)

    def _receive_task(self, connected: socket.socket) -> None:
        try:
            channel = accept(connected, self._places.secret)
            word, _ = channel.receive()
        except STRANGERS:  # or a task that died before it sent its first message
            return
        if isinstance(word, CopyFile):
            self._part.serve(channel, word)
            return
        assert isinstance(word, Join)
        if word.rank not in self._members:
            self._follow(channel)
            return
        if word.shares_memory:
            to_worker, to_server = self._places.files(self._index, word.rank)
            channel.share_memory(to_worker, to_server)
        self._serve(channel, word.rank)

    def _follow(self, channel: Channel) -> None:
        """Apply the decisions of the first ``ps`` task until it disconnects."""
        assert isinstance(self._rule, Following)
        while True:
            try:
                word, _ = channel.receive()
            except (EOFError, OSError):
                return
            assert isinstance(word, Decide)
            with self._changed:
                self._apply(self._rule.decide(word.version, word.workers))

    def _serve(self, channel: Channel, rank: int) -> None:
        """Answer a worker's process until it disconnects."""
        visit = self._welcome(rank)
        while True:
            try:
                word, payload = channel.receive()
                answer, arrays = self._answer(visit, word, payload)
                channel.send(answer, *arrays)
            except (EOFError, OSError):
                self._say_goodbye(visit)
                return

    def _welcome(self, rank: int) -> Visit:
        """Register a worker's process. It replaces the worker's earlier process, even one whose loss went unnoticed."""
        visit = Visit(rank)
        with self._changed:
            self._say_goodbye(self._members[rank].visit)
            self._members[rank].visit = visit
            self._members[rank].visits += 1
        return visit

    def _say_goodbye(self, visit: Visit | None) -> None:
        if visit is None or visit.is_over:
            return
        with self._changed:
            member = self._members[visit.rank]
            visit.is_over, member.visit = True, None
            if member.has_left or self._stuck:
                member.has_gone = True
            elif self._may_come_back and visit.rank:  # losing the first task means losing the whole group
                self._apply(self._rule.lose(visit.rank))
                self._gradients.pop(visit.rank, None)
            else:
                raise peer_lost(f"The connection to {member.task} was lost before its training ended")
            self._changed.notify_all()

    # -- answers ------------------------------------------------------------------------------------------------

    def _answer(self, visit: Visit, word: AnyWord, payload: Bytes) -> Answer:
        rank = visit.rank
        with self._changed:
            match word:
                case Push():
                    return self._push(visit, word, payload)
                case Fetch():
                    self._wait(lambda: self._shard is not None and self._rule.version >= word.least)
                    return self._present()
                case Meet():
                    return self._meet(rank, payload.view(word.dtype))
                case Build():
                    return self._build(word, payload)
                case SetState():
                    shard = self._built()
                    self._replacements = {}
                    shard.set_state(payloads.arrays(payload, shard.shapes()))
                    return Done(), []
                case SetAttributes():
                    self._built().set_attributes(word.changed, anew=word.anew)
                    return Done(), []
                case Replace():
                    return self._replace(word, payload)
                case GetState():
                    return self._state(word)
                case Leave():
                    return self._leave(rank, word, payload)
                case Start() | GetStart():
                    return self._start(rank, word)
                case Hold() | Release():
                    return self._hold(word)
                case Keep():
                    self._kept = payload.view(np.float64).copy()
                    return Done(), []
                case GetKept():
                    return Kept(self._kept.nbytes), [self._kept]
        raise ValueError(f"`word` must be a request of a worker, got {word!r:.200}")

    def _push(self, visit: Visit, word: Push, payload: Bytes) -> Answer:
        rank = visit.rank
        shard, rule, member = self._built(), self._rule, self._members[rank]
        self._wait(lambda: self._most is None or word.number <= self._most[rank], visit)
        if word.learning_rate is not None:
            shard.set_learning_rate(word.learning_rate)
        self._stop_wanted = self._stop_wanted or word.stop
        if word.number <= member.number:
            member.repeated += 1
            return self._present()
        member.number, member.place = word.number, word.place
        staleness, dropped = rule.version - word.version, rule.dropped[rank]
        self._gradients[rank] = payloads.gradient(word, payload, shard)
        self._apply(rule.push(rank, word.version))
        self._wait_in_step(rank, "applies an optimizer", lambda: rule.may_go_on(rank), visit)
        if self._stuck:
            return Refused(self._stuck), []
        self._gradients.pop(rank, None)
        return self._present(staleness=staleness, late=rule.dropped[rank] > dropped)

    def _replace(self, word: Replace, payload: Bytes) -> Answer:
        """Keep a step's assignments until the next update, because other workers may not have received the previous
        values yet. If workers are asynchronous, make the assignments immediately.
        """
        shard, reader = self._built(), Reader(payload)
        for i in word.pieces:
            self._replacements[i] = reader.take(shard.dtype, shard.pieces[i].size).copy()
        if isinstance(self._rule, Asynchronous):
            self._take_replacements()
        return Done(), []

    def _take_replacements(self) -> None:
        if self._replacements:
            self._built().replace(self._replacements)
            self._replacements = {}

    def _apply(self, updates: Updates) -> None:
        for workers in updates:
            self._take_replacements()
            gradients = [self._gradients.pop(rank) for rank in sorted(workers)]
            gradient = mean(gradients)
            self._examples = gradient.examples if gradient else 0
            if gradient is not None:
                with marked(self._ctx.tracer, self._rule.version):
                    self._built().apply(gradient)
            elif any(each.counts for each in gradients):
                self._built().apply_zeros()
            for rank in workers:
                self._members[rank].applied += 1
            self._stop = self._stop_wanted
            self._tell_followers(Decide(self._rule.version - 1, tuple(workers)))
        self._changed.notify_all()

    def _tell_followers(self, decision: Decide) -> None:
        for server, follower in enumerate(self._followers, start=1):
            try:
                follower.send(decision)
            except OSError as error:
                raise peer_lost(f"The connection to {self._places.servers[server]} was lost") from error

    def _present(self, **what_became: Any) -> Answer:
        shard = self._built()
        values = Values(
            version=self._rule.version,
            iterations=shard.iterations,
            learning_rate=shard.learning_rate,
            stop=self._stop,
            examples=self._examples,
            **what_became,
        )
        return values, [shard.values]

    def _meet(self, rank: int, array: npt.NDArray[Any]) -> Answer:
        meeting = self._meeting.arrive(rank, array)
        self._changed.notify_all()
        self._wait_in_step(
            rank,
            "does not",
            lambda: self._meeting.held > meeting or any(m.has_left for m in self._members.values()),
        )
        if self._stuck:
            return Refused(self._stuck), []
        if self._meeting.held == meeting:
            left = ", ".join(m.task for m in self._members.values() if m.has_left)
            return Refused(f"{left} has ended while the other tasks are waiting for it"), []
        return Sum(), [self._meeting.sum]

    def _build(self, word: Build, payload: Bytes) -> Answer:
        assert isinstance(self._job.strategy, ParameterServer)
        try:
            if not self._model.built:
                keras_io.build(self._model, from_plain(word.batch))
                if isinstance(self._job.model, keras_io.PackedModel) and self._job.model.attached:
                    set_later.attach(self._model, self._job.model.attached)
            variables = self._model.trainable_variables
            optimizer = self._model.optimizer
            pieces = pieces_of(variables, optimizer, len(self._places.servers), self._job.strategy.split_bytes)
            mine = [piece for piece in pieces if piece.server == self._index]
            shard = Shard(variables, optimizer, mine, wire_dtype(variables), len(self._places.servers))
            shard.set_state(payloads.arrays(payload, shard.shapes()))
        except DtfError as error:
            return Refused(str(error)), []
        self._shard = shard
        del self._model  # holds the other servers' variables too
        self._changed.notify_all()
        return Done(), []

    def _start(self, rank: int, word: Start | GetStart) -> Answer:
        if isinstance(word, Start):
            self._all.start = word
            if not isinstance(self._rule, Asynchronous):
                self._rule.version = word.place.steps  # counts the run's steps over all epochs
            self._changed.notify_all()
            return Done(), []
        self._wait(lambda: self._all.start is not None)
        self._rule.come_back(rank, word.version)
        started = self._all.started(rank, self._rule.version)
        return msgspec.structs.replace(started, has_left=started.has_left or self._is_taken), []

    def _hold(self, word: Hold | Release) -> Answer:
        self._most = self._all.numbers if isinstance(word, Hold) else None
        self._changed.notify_all()
        return Held(self._all.numbers), []

    def _state(self, word: GetState) -> Answer:
        if word.numbers:
            self._most = word.numbers
            self._changed.notify_all()
            self._wait(lambda: self._all.have(word.numbers, self._rule.away))
        if word.final:
            self._wait(lambda: self._have(lambda member: member.has_left))
            self._is_taken = True
        self._wait(lambda: self._rule.version >= word.version)
        self._take_replacements()
        counts = {
            rank: Counts(m.scheduled if m.has_left else m.number, m.applied, self._rule.dropped[rank], m.repeated)
            for rank, m in self._members.items()
        }
        shard = self._built()
        if word.stays:
            self._part.take(shard.variables)
        moving = self._moving if word.final and self._moving is not None else np.zeros(0)
        state = State(
            counts,
            moving.size,
            self._moving_workers if word.final else 0,
            self._rule.version,
            shard.iterations,
            self._all.places,
        )
        return state, [moving, *([] if word.stays else shard.state())]

    def _leave(self, rank: int, word: Leave, payload: Bytes) -> Answer:
        member = self._members[rank]
        member.has_left, member.scheduled, member.place = True, word.pushed, word.place
        self._stop_wanted = self._stop_wanted or word.stop  # another worker may have asked since the last update
        self._stop = self._stop or word.stop
        if payload.size:
            moving = payload.view(np.float64)
            self._moving = moving.copy() if self._moving is None else self._moving + moving
            self._moving_workers += 1
        self._apply(self._rule.leave(rank))
        return Done(), []

    def _built(self) -> Shard:
        if self._shard is None:
            raise ValueError("The chief must send Build before any request that needs the variables")
        return self._shard

    def _wait(self, condition: Callable[[], bool], visit: Visit | None = None) -> None:
        """Wait until ``condition()`` is true.

        Raises EOFError if another process of the same worker has replaced the one of ``visit``.
        """
        self._changed.wait_for(lambda: self._failure or condition() or (visit is not None and visit.is_over))
        if self._failure is not None:
            raise _Over
        if visit is not None and visit.is_over:
            raise EOFError

    def _wait_in_step(self, rank: int, what: str, condition: Callable[[], bool], visit: Visit | None = None) -> None:
        """Wait like ``_wait``. If all workers wait and no wait can end, because workers that should be in step do
        different things, set ``_stuck`` and return.

        If all of them apply an optimizer, they wait for the decision of the first ``ps`` task, which takes part in
        every sum.
        """
        if self._may_come_back:
            self._wait(condition, visit)
            return
        self._waits[rank] = what, condition
        active = {rank for rank, member in self._members.items() if not member.has_left}
        are_apart = len({doing for doing, _ in self._waits.values()}) > 1
        if are_apart and self._waits.keys() >= active and not any(ends() for _, ends in self._waits.values()):
            does = ", ".join(f"{self._members[each].task} {doing}" for each, (doing, _) in sorted(self._waits.items()))
            self._stuck = (
                "`model`: train_step must apply an optimizer in every step on all tasks, because the gradients are "
                f"averaged then, got a step in which {does}. Apply gradients of zeros instead of none"
            )
            self._changed.notify_all()
        try:
            self._wait(lambda: bool(self._stuck) or condition(), visit)
        finally:
            self._waits.pop(rank, None)


def _rule(strategy: Any, index: int, workers: int) -> Rule:
    if not strategy.sync:
        return Asynchronous(range(workers), strategy.max_staleness)
    return Synchronous(range(workers), strategy.backup_workers) if index == 0 else Following(range(workers))
