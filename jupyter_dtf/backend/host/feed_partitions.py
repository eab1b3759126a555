"""A host's access to the partitions that Dask holds: their location, their length and their rows."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import traceback
from typing import Any

import cloudpickle
from distributed import Client, Future, Worker
from distributed.protocol import to_serialize

from ...errors import InvalidInput, Unavailable
from ...schema.operations import scoped
from ...schema.partitions import Described, PassRequest
from ..machine.partition import assembly, cut, unknown

_CLOSE_S = 3.0
_TRIES = 8
"""The maximum number of requests for a partition. If its worker is lost before it replies, Dask recomputes the
partition.
"""


Facts = tuple[int, Described, int]
"""Facts about a partition: the number of examples, their description, and the size of the largest example in bytes."""


class HeldPartitions:
    """The Dask partitions that the runs on one host need. They are kept alive until no run needs them any more."""

    def __init__(self, worker: Worker, scope: str) -> None:
        self._worker = worker
        self._operation = scoped("dtf_rows", scope)
        self._client: Client | None = None
        self._opening = asyncio.Lock()
        self._kept: dict[tuple[Any, ...], dict[str, Future[Any]]] = {}
        """Futures, keyed by reader, then by Dask key. A reader is (run, field) or (run, field, rank, pass)."""
        self._facts: dict[str, Facts] = {}

    def forget(self, run_id: str) -> None:
        """Release the partitions of a run that has ended or is restarting."""
        for reader in [reader for reader in self._kept if reader[0] == run_id]:
            self._let_go(reader)

    def _let_go(self, reader: tuple[Any, ...]) -> None:
        for key in self._kept.pop(reader):
            self._facts.pop(key, None)

    async def close(self) -> None:
        self._kept.clear()
        if self._client is not None:
            with contextlib.suppress(Exception):  # the scheduler may be gone
                await asyncio.wait_for(self._client.close(), _CLOSE_S)

    async def rows(self, key: str, number: int, rows: Any = None, described: bytes = b"") -> Any:
        """Return the pickled ``Facts`` of a partition that this worker holds, or its ``rows``.

        Args:
            key: The Dask key of the partition.
            number: The number of the partition, for error messages.
            rows: Which rows to return; None returns the facts instead.
            described: The pickled description that the partition must match.

        Returns:
            A dict with the key ``facts`` or ``leaves``, or ``error`` if the partition does not match the description.
            None if the partition is not on this worker.
        """
        if key not in self._worker.data:
            return None
        partition: Any = self._worker.data[key]
        if rows is None:
            return {"facts": pickle.dumps((partition[0], partition[1], partition[3]))}
        try:
            leaves = await asyncio.to_thread(cut, partition, rows, number, pickle.loads(described))
        except InvalidInput as error:
            return {"error": str(error)}
        return {"leaves": leaves}

    async def answer(self, key: str, number: int, rows: Any = None, described: bytes = b"") -> Any:
        """Return the result of ``rows`` in a form that can be sent to another host."""
        answer = await self.rows(key, number, rows, described)
        if answer is not None and "leaves" in answer:
            answer["leaves"] = [to_serialize(leaf) for leaf in answer["leaves"]]
        return answer

    async def of(self, request: PassRequest) -> list[Future[Any]]:
        """Return the partitions of a pass. They are kept until the run ends or the next pass is requested."""
        client, collection = await self._connected(), request.collection
        if collection.graph is None:
            kept = self._kept.setdefault((request.run_id, request.field), {})
            missing = [key for key in collection.keys if key not in kept]
            if missing and (gone := await client.run_on_scheduler(unknown, missing)):
                raise Unavailable(
                    f"The tasks have not received all partitions of `{request.field}`: {len(gone)} of "
                    f"{len(collection.keys)} were released, because the process that passed them has ended"
                )
            for key in missing:
                kept[key] = Future(key, client=client)
            if missing:  # until this is sent, a `Future` made from a key gets no updates and keeps nothing alive
                client._send_to_scheduler({"op": "client-desires-keys", "keys": missing})
            return [kept[key] for key in collection.keys]
        return await self._computed(client, request)

    async def _computed(self, client: Client, request: PassRequest) -> list[Future[Any]]:
        """Return partitions that are computed once, for this pass only, when the first task requests them."""
        collection, reader = request.collection, (request.run_id, request.field, request.rank)
        assert collection.graph is not None
        # Tasks train in lockstep: when a task requests its next pass, every task has begun the previous one and holds
        # futures of its own for it.
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

    async def learn(self, future: Future[Any], number: int, field: str) -> Facts:
        """Wait until a partition has been computed, and return the facts about it."""
        key = str(future.key)
        if key not in self._facts:
            answer = await self.ask(future, number, field)
            self._facts[key] = pickle.loads(answer["facts"])
        return self._facts[key]

    async def ask(self, future: Future[Any], number: int, field: str, **question: Any) -> Any:
        """Request rows of a partition, or the facts about it, from a host whose worker holds it. Returns the host's
        reply.

        Raises:
            InvalidInput: If the partition could not be computed.
            Unavailable: If the partition was lost or cancelled, and could not be recomputed.
        """
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
        raise Unavailable(f"Partition {number} of {field} was lost and could not be recomputed")

    async def _ask_others(self, holders: list[str], key: str, number: int, question: dict[str, Any]) -> Any:
        if "rows" in question:
            question = {**question, "rows": to_serialize(question["rows"])}
        for address in holders:
            with contextlib.suppress(OSError):
                asked = getattr(self._worker.rpc(address), self._operation)
                if (answer := await asked(key=key, number=number, **question)) is not None:
                    return answer
        return None

    async def _connected(self) -> Client:
        """Return this host's own client of the scheduler, connecting first if necessary."""
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
    """Wait for a partition. If computing it failed, raise InvalidInput with the traceback."""
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
        raise Unavailable(f"Partition {number} of {field} was cancelled or lost before the run received it")
