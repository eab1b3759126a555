"""A host gives tasks the rows of partitions that Dask holds: each its own, from the worker that has them.

A task connects to a Unix socket of its host and asks for a pass (``schema/partitions.py``). The host waits for the
partitions as a client of the scheduler, asks the host of the worker that holds one for the rows, and sends them on.
Nothing of it runs in Dask's own threads: a task that does not take its rows keeps no partition from being computed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pickle
import socket
import traceback
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
from distributed import Client, Future, Worker
from distributed.protocol import to_serialize

from ...errors import DtfError, InvalidInput, Unavailable
from ...schema import feed_wire
from ...schema.operations import scoped
from ...schema.partitions import LENGTH, Described, PassRequest, Rows
from ...schema.payload import packed, unpack
from ..machine.partition import NOTHING, assembly, cut
from .feed_routes import Block, Piece, Router, order_of, rows_order

logger = logging.getLogger(__name__)

AHEAD = 3
"""Pieces that are fetched for a task before it takes them."""
PIECE_BYTES = 16 << 20
"""About how large a piece is at most."""
_CHUNK = 1 << 20
_TRIES = 8
"""How often a partition is asked for whose worker has gone before it answered: Dask computes it again."""


class Feeding:
    """Answers the tasks of the runs of one host."""

    def __init__(self, worker: Worker, directory: Path, scope: str) -> None:
        self.path = directory / f"feed-{os.getpid()}"
        self._worker = worker
        self._operation = scoped("dtf_rows", scope)
        self._listener: socket.socket | None = None
        self._client: Client | None = None
        self._opening = asyncio.Lock()
        self._answering: set[asyncio.Task[None]] = set()
        self._kept: dict[tuple[Any, ...], dict[str, Future[Any]]] = {}
        """By whose they are: the run, and what reads them in it."""
        self._facts: dict[str, tuple[int, Described]] = {}

    def start(self) -> None:
        """Listen. Raises OSError."""
        self.path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.setblocking(False)
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
        self._kept.clear()
        if self._client is not None:
            with contextlib.suppress(Exception):  # the scheduler may have gone
                await self._client.close()

    def forget(self, run_id: str) -> None:
        """A run has ended, or begins anew: what it reads needs not be kept for it."""
        for reader in [reader for reader in self._kept if reader[0] == run_id]:
            self._let_go(reader)

    def _let_go(self, reader: tuple[Any, ...]) -> None:
        for key in self._kept.pop(reader):
            self._facts.pop(key, None)

    # -- what other hosts ask -----------------------------------------------------------------------------------

    async def rows(self, key: str, number: int, rows: Any = None, described: bytes = b"") -> Any:
        """Of a partition that this worker holds: how many rows, and what they are like; or the ``rows`` themselves.

        None where it is not here. ``described``: what it is to be like, pickled; where it is not, that is the answer.
        """
        if key not in self._worker.data:
            return None
        partition: Any = self._worker.data[key]
        if rows is None:
            return {"facts": pickle.dumps(partition[:2])}
        try:
            leaves = await asyncio.to_thread(cut, partition, rows, number, pickle.loads(described))
        except InvalidInput as error:
            return {"error": str(error)}
        return {"leaves": leaves}

    async def answer(self, key: str, number: int, rows: Any = None, described: bytes = b"") -> Any:
        """``rows`` for another host."""
        answer = await self.rows(key, number, rows, described)
        if answer is not None and "leaves" in answer:
            answer["leaves"] = [to_serialize(leaf) for leaf in answer["leaves"]]
        return answer

    # -- what tasks ask -----------------------------------------------------------------------------------------

    def _begin(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _accept(self) -> None:
        assert self._listener is not None
        while True:
            connection, _ = await asyncio.get_running_loop().sock_accept(self._listener)
            connection.setblocking(False)
            self._begin(self._answer(connection))

    async def _answer(self, connection: socket.socket) -> None:
        """All of one pass, unless its task goes before."""
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
            finally:
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
        except OSError:
            raise
        except Exception as error:
            logger.exception("A pass over %s could not be read", request.field)
            await _send(connection, Unavailable(f"{request.field} could not be read: {error}"))
        finally:
            for each in fetching:
                each.cancel()
            await asyncio.gather(*fetching, return_exceptions=True)

    async def _described(self, request: PassRequest) -> Described:
        """What the examples of the first partition are like that has some."""
        futures = await self._futures(request)
        described = NOTHING
        for number, future in enumerate(futures):
            count, described = await self._learn(future, number, request.field)
            if count:
                return described
        raise InvalidInput(
            f"{request.field} must have at least one example. Received: {len(futures)} partitions, all of them empty",
            field=request.field,
        )

    async def _pieces(self, request: PassRequest) -> AsyncIterator[Any]:
        """The fetching of each piece of the pass, in order."""
        assert request.described is not None
        futures = await self._futures(request)
        share = max(1, PIECE_BYTES // _bytes_of(request.described))
        router = Router(request.batch_size, request.rank, request.size, share * request.size)
        async for block in self._blocks(request, futures):
            for piece in router.add(block):
                yield self._fetch(piece, futures, request)
        for piece in router.end():
            yield self._fetch(piece, futures, request)

    async def _blocks(self, request: PassRequest, futures: list[Future[Any]]) -> AsyncIterator[Block]:
        numbers: list[int] = []
        lengths: list[int] = []
        count = 0
        order = order_of(len(futures), request.seed, request.number)
        for place, number in enumerate(order):
            known = request.collection.lengths
            length = known[number] if known else (await self._learn(futures[number], number, request.field))[0]
            numbers.append(number)
            lengths.append(length)
            is_last = place == len(order) - 1
            if is_last or request.seed is None or sum(lengths) >= request.collection.shuffle_buffer:
                rows = rows_order(sum(lengths), request.seed, request.number, count)
                yield Block(tuple(numbers), tuple(lengths), rows)
                numbers, lengths, count = [], [], count + 1

    async def _fetch(self, piece: Piece, futures: list[Future[Any]], request: PassRequest) -> Rows:
        """A piece's rows, put together from the partitions that they are in."""
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
        count, _ = await self._learn(future, number, request.field)
        if request.collection.lengths and request.collection.lengths[number] != count:
            raise InvalidInput(
                f"A partition must have as many examples as its collection says. Received: {count} in partition "
                f"{number} of {request.field}, {request.collection.lengths[number]} by its chunks",
                field=request.field,
            )
        described = pickle.dumps(request.described)
        answer = await self._ask(future, number, request.field, rows=rows, described=described)
        if "error" in answer:
            raise InvalidInput(f"{answer['error']} of {request.field}", field=request.field)
        return list(answer["leaves"])

    # -- partitions ---------------------------------------------------------------------------------------------

    async def _futures(self, request: PassRequest) -> list[Future[Any]]:
        """The partitions of a pass, which are kept until the run has ended, or its next pass is asked for."""
        client, collection = await self._connected(), request.collection
        if collection.graph is None:
            kept = self._kept.setdefault((request.run_id, request.field), {})
            missing = [key for key in collection.keys if key not in kept]
            if missing and (gone := await client.run_on_scheduler(_unknown, missing)):
                raise Unavailable(
                    f"{request.field} is not held by the cluster's Dask scheduler any more: who has passed it has "
                    f"ended before the tasks had it. Received: {len(gone)} of {len(collection.keys)} partitions gone"
                )
            for key in missing:
                kept[key] = Future(key, client=client)
            if missing:  # a `Future` made by its key is told nothing, and holds nothing, until its client says this
                client._send_to_scheduler({"op": "client-desires-keys", "keys": missing})
            return [kept[key] for key in collection.keys]
        return await self._computed(client, request)

    async def _computed(self, client: Client, request: PassRequest) -> list[Future[Any]]:
        """The partitions computed for this pass alone: by one computation, whichever task asks first."""
        collection, reader = request.collection, (request.run_id, request.field, request.rank)
        assert collection.graph is not None
        # Tasks train in step: when this one asks for its next pass, all have begun the one that it leaves, and hold it.
        for kept in [key for key in self._kept if key[:3] == reader and key[3] < request.number]:
            self._let_go(kept)
        futures = self._kept.setdefault((*reader, request.number), {})
        if not futures:
            with client.as_current():
                parts = cloudpickle.loads(collection.graph)
            keys = [f"{key}-{request.run_id}-{request.number}" for key in collection.keys]
            delayed = [assembly(part, key) for part, key in zip(parts, keys, strict=True)]
            computed = client.compute(delayed, retries=collection.retries)
            futures.update(zip(keys, computed, strict=True))
        return list(futures.values())

    async def _learn(self, future: Future[Any], number: int, field: str) -> tuple[int, Described]:
        """How many examples a partition has, and what they are like, when it has been computed."""
        key = str(future.key)
        if key not in self._facts:
            answer = await self._ask(future, number, field)
            self._facts[key] = pickle.loads(answer["facts"])
        return self._facts[key]

    async def _ask(self, future: Future[Any], number: int, field: str, **question: Any) -> Any:
        """What the host answers whose worker holds a partition. Raises InvalidInput if it could not be computed."""
        for wait_s in [0.1 * 2**n for n in range(_TRIES)]:
            await _finished(future, number, field)
            held = await self._worker.scheduler.who_has(keys=[future.key])
            holders = list(held.get(future.key) or ())
            if self._worker.address in holders:
                answer = await self.rows(str(future.key), number, **question)
            else:
                answer = await self._ask_others(holders, str(future.key), number, question)
            if answer is not None:
                return answer
            await asyncio.sleep(wait_s)
        raise Unavailable(f"Partition {number} of {field} has been lost, and was not computed again")

    async def _ask_others(self, holders: list[str], key: str, number: int, question: dict[str, Any]) -> Any:
        for address in holders:
            with contextlib.suppress(OSError):
                asked = getattr(self._worker.rpc(address), self._operation)
                if "rows" in question:
                    question = {**question, "rows": to_serialize(question["rows"])}
                if (answer := await asked(key=key, number=number, **question)) is not None:
                    return answer
        return None

    async def _connected(self) -> Client:
        """This host's own client of the scheduler."""
        async with self._opening:
            if self._client is None:
                self._client = await Client(
                    self._worker.scheduler.address,
                    security=self._worker.security,
                    asynchronous=True,
                    set_as_default=False,
                    name="jupyter_dtf-host",
                )
            return self._client


async def _finished(future: Future[Any], number: int, field: str) -> None:
    """Wait for a partition. Raises InvalidInput, with the traceback of what it was computed by, if it failed."""
    assert future._state is not None
    await future._state.wait()
    if future.status == "error":
        error = await future.exception()
        if isinstance(error, InvalidInput):
            raise error
        lines = "".join(traceback.format_tb(await future.traceback())).rstrip()
        raise InvalidInput(
            f"Partition {number} of {field} could not be computed: {type(error).__name__}: {error}\n{lines}",
            field=field,
        )
    if future.status in ("cancelled", "lost"):
        raise Unavailable(f"Partition {number} of {field} was cancelled before the training had it")


def _unknown(keys: list[str], dask_scheduler: Any) -> list[str]:
    """Those keys that the scheduler has no task of."""
    return [key for key in keys if key not in dask_scheduler.tasks]


def _bytes_of(described: Described) -> int:
    """Of an example, about."""
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
    """One message of a task. Raises ConnectionError."""
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
            raise ConnectionError("The task has gone")
        done += count
