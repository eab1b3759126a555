"""A reducer with a replaceable transport: functions that were traced with the reducer then use the new transport."""

from __future__ import annotations

from collections.abc import Sequence

from .array_reducer import ArrayReducer, Bytes, Wanted
from .primitive import Array


class ExchangeableReducer(ArrayReducer):
    """A reducer that delegates to ``inner``. ``tasks`` are the names of the tasks in rank order."""

    def __init__(self, inner: ArrayReducer, tasks: Sequence[str]) -> None:
        super().__init__(inner.rank, tasks, float("inf"))
        self.bucket_bytes = inner.bucket_bytes
        self._inner = inner

    def exchange_transport(self, inner: ArrayReducer) -> None:
        """Continue with ``inner``, which must have the same size and rank. The previous one must already be closed."""
        assert (inner.rank, inner.size) == (self.rank, self.size)
        self._inner = inner

    def reduce_flat(self, arrays: list[Array], op: str, call: bytes) -> list[Array]:
        return self._inner.reduce_flat(arrays, op, call)

    def exchange(self, sent: Bytes, call: bytes, wanted: Wanted) -> None:
        self._inner.exchange(sent, call, wanted)

    def join(self) -> int:
        return self._inner.join()

    @property
    def interrupted(self) -> bool:
        return self._inner.interrupted

    def wake(self) -> None:
        self._inner.wake()

    def give_up(self, why: str) -> None:
        self._inner.give_up(why)

    def renew(self) -> None:
        self._inner.renew()

    def close(self, failed: bool = False) -> None:
        self._inner.close(failed)
