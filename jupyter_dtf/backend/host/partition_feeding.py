"""Sends tasks their rows of the partitions that Dask holds, fetched from the workers that hold them.

A task connects to a Unix socket of its host and requests a pass (``schema/partitions.py``). As a client of the
scheduler, the host waits for each partition, requests the rows from the host of a worker that holds it, and forwards
them. None of this runs in Dask's own threads, so a task that does not read its rows never delays a computation.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pickle
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Future, Worker

from ...errors import DtfError, InvalidInput, Unavailable
from ...schema import feed_wire
from ...schema.partitions import LENGTH, Described, PassRequest, Rows
from ...schema.payload import packed, unpack
from ..machine.partition import NOTHING
from .feed_partitions import HeldPartitions
from .feed_routes import Block, Piece, Router, order_of, rows_order

logger = logging.getLogger(__name__)

ACCEPT_AGAIN_S = 1.0
"""The pause in seconds after a connection that could not be accepted."""

AHEAD = 3
"""The number of pieces that are fetched for a task in advance."""
PIECE_BYTES = 16 << 20
"""The approximate maximum size of a piece in bytes."""
_CHUNK = 1 << 20


class Feeding:
    """Serves rows to the tasks on one host."""

    def __init__(self, worker: Worker, directory: Path, scope: str) -> None:
        self.path = directory / f"feed-{os.getpid()}"
        self._listener: socket.socket | None = None
        self.partitions = HeldPartitions(worker, scope)
        self._answering: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Start listening. Raises OSError if that fails."""
        self.path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.setblocking(False)
        os.fchmod(self._listener.fileno(), 0o600)  # on Linux the bound file gets the socket's mode, less the umask
        with feed_wire.address(self.path) as address:
            self._listener.bind(address)
        self._listener.listen(64)
        self._begin(self._accept())

    async def close(self) -> None:
        for task in list(self._answering):
            task.cancel()
        if self._listener is not None:
            self._listener.close()
            self.path.unlink(missing_ok=True)
        await self.partitions.close()

    # -- requests of tasks --------------------------------------------------------------------------------------

    def _begin(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _accept(self) -> None:
        assert self._listener is not None
        while True:
            try:
                connection, _ = await asyncio.get_running_loop().sock_accept(self._listener)
            except OSError:  # out of file descriptors, or the peer is gone: keep serving other tasks
                logger.exception("The connection of a task could not be accepted")
                await asyncio.sleep(ACCEPT_AGAIN_S)
                continue
            connection.setblocking(False)
            self._begin(self._answer(connection))

    async def _answer(self, connection: socket.socket) -> None:
        """Send one whole pass, unless the task disconnects first."""
        loop = asyncio.get_running_loop()
        with connection:
            try:
                request = unpack(await _received(connection))
            except OSError:
                return
            sending = asyncio.create_task(self._send_pass(connection, request))
            leaving = asyncio.create_task(loop.sock_recv(connection, 1))
            try:
                await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                sending.cancel()
                leaving.cancel()
                await asyncio.gather(sending, leaving, return_exceptions=True)

    async def _send_pass(self, connection: socket.socket, request: PassRequest) -> None:
        pieces: asyncio.Queue[asyncio.Task[Rows] | None] = asyncio.Queue(AHEAD)
        fetching: set[asyncio.Task[Any]] = set()

        async def fetch() -> None:
            try:
                async for work in self._pieces(request):
                    task = asyncio.create_task(work)
                    fetching.add(task)
                    await pieces.put(task)
            except Exception:
                await pieces.put(None)  # the code that awaits this task gets the error after all earlier pieces
                raise
            await pieces.put(None)

        try:
            if request.described is None:
                await _send(connection, await self._described(request))
                return
            fetcher = asyncio.create_task(fetch())
            fetching.add(fetcher)
            while (task := await pieces.get()) is not None:
                await _send(connection, await task)
                fetching.discard(task)
            await fetcher
            await _send(connection, None)
        except DtfError as error:
            await _send(connection, error)
        except OSError as error:
            logger.warning("A pass over %s has ended: %s", request.field, error)
            with contextlib.suppress(OSError):  # the task may be gone
                await _send(connection, Unavailable(f"{request.field} could not be read: {error}"))
        except Exception as error:
            logger.exception("A pass over %s could not be read", request.field)
            await _send(connection, Unavailable(f"{request.field} could not be read: {error}"))
        finally:
            for each in fetching:
                each.cancel()
            await asyncio.gather(*fetching, return_exceptions=True)

    async def _described(self, request: PassRequest) -> Described:
        """Return a description of the examples, based on the first partition that is not empty."""
        futures = await self.partitions.of(request)
        described = NOTHING
        for number, future in enumerate(futures):
            count, described, _ = await self.partitions.learn(future, number, request.field)
            if count:
                return described
        raise InvalidInput(
            f"`{request.field}` must have at least one example, got {len(futures)} partitions, all of them empty",
            field=request.field,
        )

    async def _pieces(self, request: PassRequest) -> AsyncIterator[Any]:
        """Yield a coroutine that fetches each piece of the pass, in order."""
        futures = await self.partitions.of(request)
        router = Router(request.batch_size, request.rank, request.size, request.first)
        async for block in self._blocks(request, futures):
            for piece in router.add(block):
                yield self._fetch(piece, futures, request)
        for piece in router.end():
            yield self._fetch(piece, futures, request)

    async def _blocks(self, request: PassRequest, futures: list[Future[Any]]) -> AsyncIterator[Block]:
        assert request.described is not None
        numbers: list[int] = []
        lengths: list[int] = []
        count = 0
        least = _bytes_of(request.described)
        largest = least
        has_words = any(name == "object" for name, _ in request.described.leaves)
        order = order_of(len(futures), request.seed, request.number)
        for place, number in enumerate(order):
            known = request.collection.lengths
            if known and not has_words:
                length = known[number]
            else:  # only the partition itself shows how long its strings are
                length, _, nbytes = await self.partitions.learn(futures[number], number, request.field)
                largest = max(largest, nbytes)
            numbers.append(number)
            lengths.append(length)
            is_last = place == len(order) - 1
            if is_last or request.seed is None or sum(lengths) >= request.collection.shuffle_buffer:
                rows = rows_order(sum(lengths), request.seed, request.number, count)
                most = max(1, PIECE_BYTES // largest) * request.size
                yield Block(tuple(numbers), tuple(lengths), rows, most)
                numbers, lengths, count, largest = [], [], count + 1, least

    async def _fetch(self, piece: Piece, futures: list[Future[Any]], request: PassRequest) -> Rows:
        """Return the rows of a piece, assembled from the partitions that hold them."""
        sources = list(piece.sources())
        asked = (self._rows_of(futures[number], number, rows, request) for number, rows, _ in sources)
        parts = await asyncio.gather(*asked)
        if len(parts) == 1:
            leaves = parts[0]
        else:
            assert request.described is not None
            leaves = [
                np.empty((len(piece.places), *shape), _dtype_of(name)) for name, shape in request.described.leaves
            ]
            for (_, _, chosen), part in zip(sources, parts, strict=True):
                for leaf, rows in zip(leaves, part, strict=True):
                    leaf[chosen] = rows
        return Rows(leaves, piece.counts, piece.is_closed)

    async def _rows_of(self, future: Future[Any], number: int, rows: Any, request: PassRequest) -> list[Any]:
        count, *_ = await self.partitions.learn(future, number, request.field)
        if request.collection.lengths and request.collection.lengths[number] != count:
            raise InvalidInput(
                f"Partition {number} of `{request.field}` must have {request.collection.lengths[number]} examples "
                f"according to the chunks of its collection, got {count}",
                field=request.field,
            )
        described = pickle.dumps(request.described)
        answer = await self.partitions.ask(future, number, request.field, rows=rows, described=described)
        if "error" in answer:
            raise InvalidInput(f"{answer['error']} of {request.field}", field=request.field)
        return list(answer["leaves"])


def _bytes_of(described: Described) -> int:
    """Return the size of an example in bytes, counting a string as the size of a pointer."""
    return sum(int(np.prod(shape)) * _dtype_of(name).itemsize for name, shape in described.leaves) or 1


def _dtype_of(name: str) -> np.dtype[Any]:
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        own: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return own


async def _send(connection: socket.socket, value: Any) -> None:
    loop = asyncio.get_running_loop()
    body = packed(value)
    await loop.sock_sendall(connection, LENGTH.pack(body.size))
    for chunk in body.chunks(_CHUNK):
        await loop.sock_sendall(connection, chunk)


async def _received(connection: socket.socket) -> memoryview:
    """Receive one message from a task. Raises ConnectionError if the task is gone."""
    length = bytearray(LENGTH.size)
    await _fill(connection, memoryview(length))
    body = memoryview(bytearray(LENGTH.unpack(length)[0]))
    await _fill(connection, body)
    return body


async def _fill(connection: socket.socket, into: memoryview) -> None:
    done = 0
    while done < len(into):
        count = await asyncio.get_running_loop().sock_recv_into(connection, into[done:])
        if not count:
            raise ConnectionError("The task is gone")
        done += count
