"""Collectives over TCP connections between all pairs of tasks.

Every collective begins with a round in which all tasks send each other a few bytes, including the digest of the call.
Small data is sent along with these bytes. A large reduction uses a ring, in pieces: the data that arrives from one
neighbor is reduced with the local data and sent to the other neighbor, so that both directions of the network are busy
from the first piece to the last.
"""

from __future__ import annotations

import select
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate
from typing import Any

import numpy as np

from ... import time_accounts
from ...context import check_gang, peer_lost
from ..array_reducer import ArrayReducer, Bytes, Wanted, as_bytes
from ..calls import DIGEST_BYTES, DifferentCalls, differ, mark, text_of
from ..deadlocks import LOOK_S
from ..elementwise import Combine, combine_for
from ..group_wait import WholeWait
from ..primitive import Array
from ..rendezvous import JOINED
from ..results import Results
from .links import Links
from .pieces import Piece, chunks
from .traffic import Traffic
from .wires import Broken, Incoming, Outgoing, Peer, Sender, Word, await_any

_HEAD = struct.Struct(f"<{DIGEST_BYTES}sqq")  # digest of the call, total size to send, size of the following data
_SMALL_BYTES = 1 << 15  # fits into a connection's buffers even if the other task does not read
_ALL_SMALL_BYTES = 1 << 18  # the limit for the small data that a task sends to all others together
_PIECE_BYTES = 1 << 18
_FEW = 4  # up to this number, the parts of a piece are sent separately
_WORD_S = 1.0  # the time in which the reason must arrive after a connection has ended
_RETRY_S = 0.01
_MANY_CALLS = 1000
_HAS_LEFT = "This task has left its collectives: they were closed, or one of them has failed"
_VERDICT = b"\2" * DIGEST_BYTES  # not the digest of any call: overrides the other tasks' calls


class TcpReducer(ArrayReducer):
    """A reducer that exchanges data over TCP.

    ``ranks`` are the tasks' ranks in the run, ``rank`` is this task's index in ``ranks``, and ``group`` is the same in
    all tasks.
    """

    bucket_bytes = 4 << 20  # sending takes longer than adding, so an early start saves time

    def __init__(
        self,
        links: Links,
        group: str,
        rank: int,
        ranks: Sequence[int],
        tasks: Sequence[str],
        *,
        wait: WholeWait,
        traffic: Traffic,
    ) -> None:
        super().__init__(rank, tasks, wait.stall_s)
        self._links = links
        self._group = group
        self._ranks = list(ranks)
        self._wait = wait
        self._traffic = traffic
        self._results = Results()
        self._scratch = np.empty(_PIECE_BYTES, np.uint8)
        self._small = max(1024, min(_SMALL_BYTES, _ALL_SMALL_BYTES // self.size))
        # In the k-th step, each task sends to the k-th task after it and receives from the k-th before it.
        self._after = [(rank + step) % self.size for step in range(1, self.size)]
        self._before = [(rank - step) % self.size for step in range(1, self.size)]
        self._cut: dict[tuple[tuple[int, ...], int], list[list[Piece]]] = {}
        self._called: list[bytes] = []
        self._starts = 0
        self._start()

    # -- connections --------------------------------------------------------------------------------------------

    def _start(self) -> None:
        group = f"{self._group}-{self._starts}"
        self._starts += 1
        self._interrupted = False
        self._sender = Sender()
        self._rounds = 0
        self._out: dict[int, Outgoing] = {}
        self._in: dict[int, Incoming] = {}
        with self._wait.start():
            self._connect(group)
            self._poll = select.poll()
            for wire in self._out.values():
                self._poll.register(wire, select.POLLIN)
            with self._telling():
                self._meet(mark("start"))

    def _connect(self, group: str) -> None:
        """Connect to the other tasks, and wait for their connections. Raises RuntimeError if one cannot be reached."""
        since: dict[int, float] = {}
        look_at = time.monotonic() + LOOK_S
        while len(self._out) + len(self._in) < 2 * len(self._others):
            for other in self._others:
                if other not in self._out:
                    try:
                        self._out[other] = self._links.dial(group, self._ranks[other])
                    except ConnectionRefusedError:  # it is not listening yet
                        since.pop(other, None)
                    except OSError as error:
                        begun = since.setdefault(other, time.monotonic())
                        if time.monotonic() - begun >= self._links.patience_s:
                            raise peer_lost(self._unreachable(other, error)) from error
                if other not in self._in and (arrived := self._links.arrived(group, self._ranks[other])) is not None:
                    self._in[other] = arrived
            if len(self._out) + len(self._in) < 2 * len(self._others):
                self._links.await_change(_RETRY_S)
                check_gang()
            if time.monotonic() >= look_at:
                look_at = time.monotonic() + LOOK_S
                self._look()

    def _unreachable(self, other: int, error: OSError) -> str:
        peer = self._links.peer(self._ranks[other])
        return f"{self._tasks[self.rank]} cannot reach {peer.task} at {peer.host}: {error}"

    def close(self, failed: bool = False) -> None:
        self._leave(Word.FAILED if failed else Word.LEFT)

    def _leave(self, word: Word) -> None:
        self._sender.end()
        if self._out.keys() == self._in.keys():
            self._traffic.end(self._out, self._in)
        for incoming in self._in.values():
            incoming.say(word)
        for out in self._out.values():
            out.close()
        for incoming in self._in.values():
            incoming.close()
        self._out, self._in = {}, {}

    @property
    def interrupted(self) -> bool:
        return self._interrupted

    def renew(self) -> None:
        self.close(failed=True)
        with self._lock:
            self._start()

    # -- waiting ------------------------------------------------------------------------------------------------

    def _from(self, other: int) -> Incoming:
        """Wait until there is data on the connection from that task, and return the connection.

        Raises Broken if a task was lost, and DifferentCalls if the wait would never end.
        """
        wire = self._in[other]
        if wire.is_ready():
            return wire
        awaited = wire.fileno()
        self._poll.register(awaited, select.POLLIN)
        begun = time.perf_counter()
        try:
            while True:
                ready = [descriptor for descriptor, _ in self._poll.poll(LOOK_S * 1000)]
                if awaited in ready:
                    return wire
                if not ready:
                    self._look()
                for out in [out for out in self._out.values() if out.fileno() in ready]:
                    if (word := out.word()) is not Word.HERE:
                        self._poll.unregister(out)
                        if word is not Word.LEFT:
                            raise Broken(out.peer)
                        if out.peer.rank == self._ranks[other]:  # all data that it has sent has already arrived
                            return wire
        finally:
            waited = time.perf_counter() - begun
            self._traffic.waited[other] += waited
            time_accounts.waited(waited)
            self._poll.unregister(awaited)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Measure the time of the block, and convert Broken to an error that names the lost task."""
        begun = time.perf_counter()
        try:
            yield
            self._traffic.add(time.perf_counter() - begun, self._out)
        except Broken as error:
            lost = self._lost(error)
            self._leave(Word.FOLLOWED)  # an exchange was interrupted, so the connections cannot be used any more
            raise lost from error

    def _look(self) -> None:
        """Raise DifferentCalls if this wait would never end. The other tasks then stop waiting for this task."""
        self._sender.check()
        check_gang()
        if verdict := self._wait.still_waits():
            self._wait.go(self._group, verdict)
            self.close(failed=True)
            raise DifferentCalls(verdict)

    def _lost(self, broken: Broken) -> RuntimeError:
        """Return the error for a connection that has ended. If several tasks have left, it names the first."""
        end = time.monotonic() + _WORD_S
        while True:
            gone = self._gone(broken)
            if gone is not None and gone[1] is not Word.FOLLOWED:
                break
            left_s = end - time.monotonic()
            if left_s <= 0:
                gone = gone or (broken.peer, Word.DIED)
                break
            open_ = [out for out in self._out.values() if out.word() is Word.HERE]
            if not open_:
                end = 0.0
            await_any(open_, left_s)
        peer, word = gone
        self._interrupted = word in (Word.FAILED, Word.FOLLOWED)
        if word is not Word.SILENT and (why := self._wait.why_gone_from(peer.rank)):
            return DifferentCalls(why)
        return peer_lost(self._said_of(peer, word))

    def _gone(self, broken: Broken) -> tuple[Peer, Word] | None:
        """Return the task that made the others leave, with its last ``Word``; None if no task is known to have left."""
        found = [(out.word(), out.peer) for out in self._out.values()]
        found += [(incoming.word, incoming.peer) for incoming in self._in.values()]
        for word in (Word.SILENT, Word.DIED, Word.FAILED, Word.LEFT, Word.FOLLOWED):
            peers = [peer for each, peer in found if each is word]
            if word is Word.LEFT and broken.peer in peers:
                return broken.peer, word
            if peers:
                return peers[0], word
        return None

    def _said_of(self, peer: Peer, word: Word) -> str:
        own = self._tasks[self.rank]
        if word is Word.SILENT:
            return f"{own} has not heard from {peer.task} at {peer.host} for {self._links.patience_s:g} s"
        if word in (Word.FAILED, Word.LEFT):
            how = "failed" if word is Word.FAILED else "ended"
            return f"The task {peer.task} has {how} while other tasks were waiting for it in a collective"
        if word is Word.FOLLOWED:
            return f"The task {peer.task} has left its collectives because another task was lost"
        return f"The task {peer.task} has died: its connection to {own} has ended (it ran at {peer.host})"

    # -- rounds -------------------------------------------------------------------------------------------------

    def _round(self, digest: bytes, sent: Any, size: int) -> tuple[list[bytes], list[int], list[bytes]]:
        """Exchange a small amount of data between all tasks. Returns digests, sizes and data, each in rank order."""
        if not self._out:
            raise RuntimeError(_HAS_LEFT)
        message = _HEAD.pack(digest, size, len(sent)) + sent
        for other in self._after:
            self._out[other].send(message)
        digests, sizes, came = [digest] * self.size, [size] * self.size, [sent] * self.size
        for other in self._before:
            wire = self._from(other)
            digests[other], sizes[other], length = _HEAD.unpack(wire.read(_HEAD.size))
            came[other] = bytes(wire.read(length))
        self._rounds += 1
        return digests, sizes, came

    def _meet(self, call: bytes, sent: Any = b"", size: int = 0) -> tuple[tuple[int, ...], list[int], list[bytes]]:
        """Run a round in which all tasks must make the same call. Returns joined tasks, sizes and data.

        Raises DifferentCalls in all tasks if their calls differ. The tasks can continue afterwards.
        """
        digest = call[:DIGEST_BYTES]
        digests, sizes, came = self._round(digest, sent, size)
        if all(each == digest for each in digests):
            return (), sizes, came
        texts = self._round(digest, text_of(call).encode(), 0)[2]
        self._called = [each + text for each, text in zip(digests, texts, strict=True)]
        for each, text in zip(digests, texts, strict=True):
            if each == _VERDICT:
                raise DifferentCalls(text.decode(errors="replace"))
        joined = tuple(rank for rank, each in enumerate(digests) if each == JOINED[:DIGEST_BYTES])
        others = [rank for rank in range(self.size) if rank not in joined]
        if len({digests[rank] for rank in others}) > 1:
            others.sort(key=lambda rank: rank != self.rank)  # this task's own call first
            raise differ({self._tasks[rank]: texts[rank].decode(errors="replace") for rank in others})
        return joined, sizes, came

    def tell_different(self, verdict: str) -> None:
        """Take part in the next collective, but report that tasks on this machine have made different calls."""
        with suppress(Broken, DifferentCalls):
            self._meet(_VERDICT + verdict.encode()[:4000])

    def join(self) -> int:
        """Contribute zeros to the other tasks' sums until all tasks have joined. Returns the rank of the last one.

        Raises InvalidInput in all tasks if one of them calls anything other than a sum or average in the meantime.
        """
        since = self._rounds
        while True:
            with self._lock, self._wait.collective(text_of(JOINED)), self._telling():
                joined, _, _ = self._meet(JOINED)
                if not joined:
                    return int(max(self.all_gather((since, self.rank)))[1])
                call = next(call for rank, call in enumerate(self._called) if rank not in joined)
                dtype, op, lengths = self._told(None, joined)
                self.reduce_flat([np.zeros(length, dtype) for length in lengths], op, call)

    # -- reductions ---------------------------------------------------------------------------------------------

    def reduce_flat(self, arrays: list[Array], op: str, call: bytes) -> list[Array]:
        reduce = self._reduce_small if sum(a.nbytes for a in arrays) <= self._small else self._reduce_large
        with self._wait.collective(text_of(call)), self._telling():
            while True:
                reduced = reduce(arrays, op, call)
                if reduced is not None:
                    return reduced

    def _reduce_small(self, arrays: list[Array], op: str, call: bytes) -> list[Array] | None:
        dtype = arrays[0].dtype
        combine = combine_for(op, dtype)
        own = np.concatenate(arrays)
        joined, _, came = self._meet(call, own.tobytes())
        if self._tell_joined(joined, call, arrays, op):
            return None
        everyones = [np.frombuffer(data, dtype) for data in came]
        total = combine(everyones[0], everyones[1])
        for each in everyones[2:]:
            combine(total, each, out=total)
        ends = list(accumulate(a.size for a in arrays))
        return [total[end - a.size : end] for end, a in zip(ends, arrays, strict=True)]

    def _reduce_large(self, arrays: list[Array], op: str, call: bytes) -> list[Array] | None:
        joined = self._meet(call)[0]
        if self._tell_joined(joined, call, arrays, op):
            return None
        totals = self._results.like(arrays)
        self._go_round(combine_for(op, arrays[0].dtype), arrays, totals)
        self._sender.flush()
        return totals

    def _go_round(self, combine: Combine, arrays: list[Array], totals: list[Array]) -> None:
        """Send every chunk around the ring twice: once to reduce it, and once to distribute the result."""
        right, left = self._out[self._after[0]], self._before[0]
        dtype = arrays[0].dtype
        chunks = self._chunks(tuple(a.size for a in arrays), dtype.itemsize)
        steps = 2 * self.size - 2
        for piece in chunks[self.rank]:
            self._send_piece(right, arrays, piece)
        for step in range(steps):
            for piece in chunks[(self.rank - step - 1) % self.size]:
                wire = self._from(left)
                if step < self.size - 1:
                    values = self._scratch[: sum(hi - lo for _, lo, hi in piece) * dtype.itemsize]
                    wire.read_into(values.data)
                    values, at = values.view(dtype), 0
                    for i, lo, hi in piece:
                        combine(arrays[i][lo:hi], values[at : at + hi - lo], out=totals[i][lo:hi])
                        at += hi - lo
                else:
                    for i, lo, hi in piece:
                        wire.read_into(as_bytes(totals[i][lo:hi]).data)
                if step < steps - 1:
                    self._send_piece(right, totals, piece)

    def _send_piece(self, wire: Outgoing, arrays: list[Array], piece: Piece) -> None:
        parts = [as_bytes(arrays[i][lo:hi]) for i, lo, hi in piece]
        for part in parts if len(parts) <= _FEW else [np.concatenate(parts)]:
            self._sender.send(wire, part.data)

    def _chunks(self, sizes: tuple[int, ...], itemsize: int) -> list[list[Piece]]:
        key = (sizes, itemsize)
        if key not in self._cut:
            if len(self._cut) >= _MANY_CALLS:
                self._cut.clear()
            self._cut[key] = chunks(sizes, self.size, _PIECE_BYTES // itemsize)
        return self._cut[key]

    # -- exchanges of any length --------------------------------------------------------------------------------

    def exchange(self, sent: Bytes, call: bytes, wanted: Wanted) -> None:
        with self._wait.collective(text_of(call)), self._telling():
            self._exchange(sent, call, wanted)

    def _exchange(self, sent: Bytes, call: bytes, wanted: Wanted) -> None:
        joined, sizes, came = self._meet(call, sent.tobytes() if sent.size <= self._small else b"", sent.size)
        self._tell_joined(joined, call, (), "")
        targets = wanted(sizes)
        start, target = targets[self.rank]
        target[:] = sent[start : start + target.size]
        if max(sizes) <= self._small:
            for other in self._others:
                start, target = targets[other]
                target[:] = np.frombuffer(came[other], np.uint8)[start : start + target.size]
            return
        asked = np.array([(start, target.size) for start, target in targets], np.int64)
        everyones = [np.frombuffer(data, np.int64).reshape(-1, 2) for data in self._meet(call, asked.tobytes())[2]]
        memory = sent.data
        for other in self._after:
            start, length = everyones[other][self.rank]
            if length:
                self._sender.send(self._out[other], memory[start : start + length])
        for other in self._before:
            rest = targets[other][1].data
            while len(rest):
                self._from(other).read_into(rest[:_PIECE_BYTES])
                rest = rest[_PIECE_BYTES:]
        self._sender.flush()
