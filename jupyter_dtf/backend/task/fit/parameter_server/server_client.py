"""The client through which a training task communicates with all ``ps`` tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .....errors import InvalidInput
from ... import time_accounts
from ...context import peer_lost
from .layout import Piece
from .messages import (
    AnyWord,
    Build,
    Fetch,
    GetKept,
    GetStart,
    GetState,
    Held,
    Hold,
    Join,
    Keep,
    Leave,
    Meet,
    Place,
    Push,
    Refused,
    Release,
    Replace,
    ServedAttributes,
    SetAttributes,
    SetState,
    Start,
    Started,
    State,
    Values,
)
from .server_addresses import Places
from .wire import Bytes, Reader

Rows = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64] | None, npt.NDArray[Any]]
"""Row numbers of a variable, their keys (``lookups``) if any, and the gradient of each row."""


@dataclass
class Answered:
    """The contents of the servers' last answer, except the variables."""

    version: int = 0
    iterations: int = 0
    learning_rate: float = 0.0
    staleness: float = 0.0
    """The staleness of the gradient, averaged over the servers."""
    stop: bool = False
    examples: int = 0
    """The number of examples in this task's last update: this task's own, or, if tasks are synchronous, those of all
    gradients in the update.
    """


class Client:
    """The connections to all servers. Only one thread may use them at a time.

    Methods raise RuntimeError if a server is lost; the message names the server.
    """

    def __init__(self, ctx: Any, places: Places) -> None:
        self._places = places
        self._is_sync = False
        self._channels = [places.reach(server) for server in range(len(places.servers))]
        for server, channel in enumerate(self._channels):
            shares = places.shares_memory(server)
            channel.send(Join(ctx.rank, shares))
            if shares:
                to_worker, to_server = places.files(server, ctx.rank)
                channel.share_memory(to_server, to_worker)
        self.pushed = 0
        self.dropped = 0
        """The number of this worker's gradients that arrived too late."""
        self.answered = Answered()
        self._is_apart = False
        self._versions = [0] * len(places.servers)  # of this task's copy of the variables, indexed by server

    def divide(self, pieces: list[Piece], dtype: Any, is_sync: bool) -> None:
        """Set the pieces, ordered by server, and the wire type. Must be called before any method that uses them.

        ``is_sync``: whether the variables of all servers must have the same version.
        """
        self._by_server = [[p for p in pieces if p.server == s] for s in range(len(self._channels))]
        self.dtype = dtype
        self._is_sync = is_sync

    # -- training -----------------------------------------------------------------------------------------------

    def fetch(self) -> npt.NDArray[Any]:
        """Wait until the servers have the variables, and return a new array of all flattened, concatenated pieces."""
        return self._values([self._ask(server, Fetch(0)) for server in range(len(self._channels))])

    def push(
        self,
        *,
        examples: int,
        dense: npt.NDArray[Any],
        sparse: dict[int, Rows],
        absent: frozenset[int],
        learning_rate: float | None = None,
        stop: bool = False,
        counts: bool = False,
        place: Place | None = None,
    ) -> npt.NDArray[Any]:
        """Send a gradient, and return the variables as ``fetch`` does.

        ``dense`` holds the flattened pieces of all variables that are neither in ``sparse`` nor in ``absent``.
        ``counts`` and ``place`` are as in ``Push``.
        """
        self.pushed += 1
        start = 0
        for server, pieces in enumerate(self._by_server):
            here = [p for p in pieces if p.variable not in absent and p.variable not in sparse]
            size = sum(p.size for p in here)
            rows = [(i, _within(p, *sparse[p.variable])) for i, p in enumerate(pieces) if p.variable in sparse]
            word = Push(
                number=self.pushed,
                version=self._versions[server],
                examples=examples,
                absent=tuple(i for i, p in enumerate(pieces) if p.variable in absent),
                sparse=tuple((i, len(indices), keys is not None) for i, (indices, keys, _) in rows),
                learning_rate=learning_rate,
                stop=stop,
                counts=counts,
                place=place,
            )
            arrays = [array for _, parts in rows for array in parts if array is not None]
            self._send(server, word, dense[start : start + size], *arrays)
            start += size
        answers = [self._receive(server) for server in range(len(self._channels))]
        first = answers[0][0]
        assert isinstance(first, Values)
        self.dropped += first.late
        values = self._values(answers)
        if not self._is_sync:
            self.answered.examples = examples
        return values

    def replace(self, values: dict[int, npt.NDArray[Any]]) -> None:
        """Replace the servers' values of variables. ``values`` is keyed by their indices in
        ``model.trainable_variables``.
        """

        def message(server: int) -> tuple[AnyWord, Sequence[npt.NDArray[Any]]]:
            here = [(i, p) for i, p in enumerate(self._by_server[server]) if p.variable in values]
            parts = [values[p.variable] if p.is_whole else values[p.variable][p.first :][: p.rows] for _, p in here]
            word = Replace(tuple(i for i, _ in here))
            return word, [np.ascontiguousarray(part, self.dtype).reshape(-1) for part in parts]

        self._on_each(message)

    def set_attributes(self, changed: Sequence[ServedAttributes], *, anew: bool) -> None:
        """Set attributes of the servers' optimizers and constraints. ``anew``: see ``SetAttributes``."""
        word = SetAttributes(tuple(changed), anew)
        self._on_each(lambda server: (word, []))

    def meet(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the sum of a one-dimensional array over the training tasks."""
        _, payload = self._ask(0, Meet(array.dtype.str), array)
        total: npt.NDArray[Any] = Reader(payload).take(array.dtype, array.size).copy()
        return total

    # -- start and end ------------------------------------------------------------------------------------------

    def begin(self, start: Start) -> None:
        """Send the starting positions of asynchronous workers. Called by the chief, before ``started``."""
        self._on_each(lambda server: (start, []))

    def started(self) -> Started:
        """Wait until the chief has sent the starting positions of asynchronous workers; return this process's own."""
        self._is_apart = True
        known: list[Started] = []
        for server in range(len(self._channels)):
            word, _ = self._ask(server, GetStart(known[0].version if known else 0))
            assert isinstance(word, Started)
            known.append(word)
        # The last gradient of a lost process may not have reached all servers.
        self.pushed = max(word.number for word in known)
        return known[0]

    def keep(self, moving: npt.NDArray[np.float64]) -> None:
        """Keep the chief's moving statistics on the first server, for workers that start later."""
        self._ask(0, Keep(), moving)

    def kept(self) -> npt.NDArray[np.float64]:
        """Return the kept moving statistics, or an empty array."""
        _, payload = self._ask(0, GetKept())
        kept: npt.NDArray[np.float64] = payload.view(np.float64).copy()
        return kept

    def build(self, states: list[list[npt.NDArray[Any]]], batch: Any) -> None:
        """Send each server its initial state, in the layout of ``slots.Plan``. Called by the chief.

        Raises InvalidInput if a server refuses the state.
        """
        self._on_each(lambda server: (Build(batch), states[server]))

    def set_state(self, states: list[list[npt.NDArray[Any]]]) -> None:
        """Replace the servers' variables and slots. Called by the chief."""
        self._on_each(lambda server: (SetState(), states[server]))

    def state(
        self, shapes: list[list[tuple[Any, int]]], final: bool, *, stays: bool = False
    ) -> tuple[list[list[npt.NDArray[Any]]], State, npt.NDArray[np.float64]]:
        """Return every server's arrays, the first server's message, and the sum of the workers' moving statistics.

        ``final``: wait until all workers have left. Otherwise, if workers are asynchronous and there are several
        servers, updates are held during the call, so that all servers have applied the same gradients of each worker.
        Later gradients are computed from these variables. ``stays``: the servers keep copies of these arrays and send
        none, regardless of ``shapes``.
        """
        servers = range(len(self._channels))
        holds = self._is_apart and not final and len(servers) > 1
        numbers = self._hold() if holds else ()
        answers: list[tuple[AnyWord, Bytes]] = []
        for server in servers:
            first = answers[0][0] if answers else None
            least = first.version if self._is_sync and isinstance(first, State) else 0
            answers.append(self._ask(server, GetState(final, numbers, least, stays)))
        if holds:
            self._on_each(lambda server: (Release(), []))
        states, moving, words = [], np.zeros(0), []
        for server, (word, payload) in enumerate(answers):
            assert isinstance(word, State)
            words.append(word)
            reader = Reader(payload)
            statistics = reader.take(np.float64, word.moving).copy()
            if server == 0:
                moving = statistics
            states.append([reader.take(dtype, size).copy() for dtype, size in ([] if stays else shapes[server])])
        if self._is_apart and not stays:
            self._versions = [word.version for word in words]
            self.answered.version, self.answered.iterations = words[0].version, words[0].iterations
        return states, words[0], moving

    def _hold(self) -> tuple[int, ...]:
        """Hold updates on every server, and return the number of each worker's last gradient received by any server."""
        held = []
        for server in range(len(self._channels)):
            word, _ = self._ask(server, Hold())
            assert isinstance(word, Held)
            held.append(word.numbers)
        return tuple(max(each) for each in zip(*held, strict=True))

    def leave(self, stop: bool, moving: npt.NDArray[np.float64], place: Place | None = None) -> None:
        """End this task's training.

        ``stop``: whether the other tasks must end too. ``place``: the position at which this task ended.
        """
        self._on_each(lambda server: (Leave(self.pushed, stop, place), [moving] if server == 0 else []))

    def close(self) -> None:
        for channel in self._channels:
            channel.close()

    # -- internals ----------------------------------------------------------------------------------------------

    def _values(self, answers: Sequence[tuple[AnyWord, Bytes]]) -> npt.NDArray[Any]:
        answers = list(answers)
        while self._is_sync:  # the servers answer one after another, and other tasks may have taken steps in between
            versions = [word.version for word, _ in answers if isinstance(word, Values)]
            behind = [server for server, version in enumerate(versions) if version < max(versions)]
            if not behind:
                break
            for server in behind:
                answers[server] = self._ask(server, Fetch(max(versions)))
        flat = np.empty(sum(p.size for pieces in self._by_server for p in pieces), self.dtype)
        start, words = 0, []
        for (word, payload), pieces in zip(answers, self._by_server, strict=True):
            assert isinstance(word, Values)
            words.append(word)
            size = sum(p.size for p in pieces)
            flat[start : start + size] = Reader(payload).take(self.dtype, size)
            start += size
        first = words[0]
        self._versions = [word.version for word in words]
        self.answered = Answered(
            version=first.version,
            iterations=first.iterations,
            learning_rate=first.learning_rate,
            staleness=sum(word.staleness for word in words) / len(words),
            stop=first.stop,
            examples=first.examples,
        )
        return flat

    def _on_each(self, message: Callable[[int], tuple[AnyWord, Sequence[npt.NDArray[Any]]]]) -> None:
        for server in range(len(self._channels)):
            word, arrays = message(server)
            self._send(server, word, *arrays)
        for server in range(len(self._channels)):
            self._receive(server)

    def _ask(self, server: int, word: AnyWord, *arrays: npt.NDArray[Any]) -> tuple[AnyWord, Bytes]:
        self._send(server, word, *arrays)
        return self._receive(server)

    def _send(self, server: int, word: AnyWord, *arrays: npt.NDArray[Any]) -> None:
        try:
            with time_accounts.exchanging:
                self._channels[server].send(word, *arrays)
        except OSError as error:
            raise peer_lost(f"The connection to {self._places.servers[server]} was lost") from error

    def _receive(self, server: int) -> tuple[AnyWord, Bytes]:
        try:
            with time_accounts.exchanging:
                word, payload = self._channels[server].receive()
        except (EOFError, OSError) as error:
            raise peer_lost(f"The connection to {self._places.servers[server]} was lost") from error
        if isinstance(word, Refused):
            raise InvalidInput(word.why)
        return word, payload


def _within(
    piece: Piece, indices: npt.NDArray[np.int64], keys: npt.NDArray[np.int64] | None, rows: npt.NDArray[Any]
) -> Rows:
    """Return the part of a sparse gradient in a piece, with rows numbered from the piece's first row."""
    if piece.is_whole:
        return indices, keys, rows
    chosen = (indices >= piece.first) & (indices < piece.first + piece.rows)
    return indices[chosen] - piece.first, None if keys is None else keys[chosen], rows[chosen]
