"""``RDD``: a Dask bag under the names that programs for Spark use of theirs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from ...errors import Conflict, InvalidInput
from . import files


class Context(Protocol):
    """A ``SparkContext``, as far as its collections need one."""

    @property
    def client(self) -> Any: ...

    def compute(self, what: Any) -> Any: ...

    def union(self, rdds: Sequence[RDD]) -> RDD: ...

    def createDataFrame(self, data: Any, columns: Sequence[str]) -> Any: ...


class RDD:
    """A collection in partitions, of a ``SparkContext``. Computed anew whenever something is asked of it.

    ``bag`` is the Dask bag, with all that Dask has.
    """

    def __init__(self, bag: Any, context: Context) -> None:
        self.bag = bag
        self.context = context

    # -- another one, computed later ----------------------------------------------------------------------------

    def map(self, f: Callable[[Any], Any]) -> RDD:
        """``f`` of each item."""
        return RDD(self.bag.map(f), self.context)

    def filter(self, f: Callable[[Any], Any]) -> RDD:
        """The items of which ``f`` says yes."""
        return RDD(self.bag.filter(f), self.context)

    def flatMap(self, f: Callable[[Any], Iterable[Any]]) -> RDD:
        """All items of what ``f`` makes of each."""
        return RDD(self.bag.map(f).flatten(), self.context)

    def mapPartitions(self, f: Callable[[Iterator[Any]], Iterable[Any]]) -> RDD:
        """What ``f`` makes of the items of each partition."""
        return RDD(self.bag.map_partitions(_of_partition, f), self.context)

    def zip(self, other: RDD) -> RDD:
        """Pairs with the items of another one that has as many in each partition.

        Raises InvalidInput for another number of partitions, and when it is computed, for partitions of other sizes.
        """
        import dask.bag as db

        if self.getNumPartitions() != other.getNumPartitions():
            raise InvalidInput(
                f"zip() is with as many partitions, got {other.getNumPartitions()} for {self.getNumPartitions()}"
            )
        return RDD(db.map_partitions(_pairs, self.bag, other.bag), self.context)

    def union(self, other: RDD) -> RDD:
        """The partitions of this one, then those of the other."""
        return self.context.union([self, other])

    def repartition(self, numPartitions: int) -> RDD:
        """The same items in so many partitions."""
        return RDD(self.bag.repartition(npartitions=numPartitions), self.context)

    def cache(self) -> RDD:
        """Keep the partitions in the workers' memory: computed now, and once."""
        self.bag = self.context.client.persist(self.bag)
        return self

    persist = cache

    def toDF(self, columns: Sequence[str]) -> Any:
        """A Dask dataframe of items that are rows: sequences with a value for each column."""
        return self.context.createDataFrame(self, columns)

    # -- what it has --------------------------------------------------------------------------------------------

    def getNumPartitions(self) -> int:
        """How many partitions it has."""
        return int(self.bag.npartitions)

    def collect(self) -> list[Any]:
        """All items, here."""
        items: list[Any] = self._computed(self.bag)
        return list(items)

    def count(self) -> int:
        """How many items there are."""
        return int(self._computed(self.bag.count()))

    def sum(self) -> Any:
        """The sum of the items: numbers, or arrays of one shape."""
        return sum(self.mapPartitions(_sum).collect())

    def reduce(self, f: Callable[[Any, Any], Any]) -> Any:
        """What ``f`` makes of two items, and of that and the next. Raises InvalidInput where there is no item."""
        parts = self.mapPartitions(functools.partial(_reduced, f)).collect()
        if not parts:
            raise InvalidInput("reduce() needs at least one item, and there is none")
        return functools.reduce(f, parts)

    def take(self, num: int) -> list[Any]:
        """The first items; no more partitions are computed than that takes."""
        found: list[Any] = []
        for part in self.bag.to_delayed():
            if len(found) >= num:
                break
            found += list(self._computed(part))
        return found[:num]

    def first(self) -> Any:
        """The first item. Raises InvalidInput where there is none."""
        found = self.take(1)
        if not found:
            raise InvalidInput("first() needs at least one item, and there is none")
        return found[0]

    def foreach(self, f: Callable[[Any], Any]) -> None:
        """Call ``f`` with each item, in the workers."""
        self.map(f).count()

    def foreachPartition(self, f: Callable[[Iterator[Any]], Any]) -> None:
        """Call ``f`` with the items of each partition, in the workers."""
        self.mapPartitions(functools.partial(_called, f)).count()

    def saveAsTextFile(self, path: str) -> None:
        """Write a file ``part-00000``... with a line for each item of a partition, into a new directory.

        Raises Conflict where there is something, Unavailable for a place that nothing here reaches.
        """
        system, root = files.opened(path)
        if system.exists(root):
            raise Conflict(f"saveAsTextFile() writes to a new directory. Received: {path!r}, which is there")
        system.makedirs(root, exist_ok=True)
        from dask import delayed

        write = delayed(_write_lines, pure=False)
        parts = self.bag.to_delayed()
        self._computed([write(part, path, number) for number, part in enumerate(parts)])
        system.touch(f"{root}/_SUCCESS")

    def _computed(self, what: Any) -> Any:
        return self.context.compute(what)

    def __repr__(self) -> str:
        return f"<RDD of {self.getNumPartitions()} partitions>"


def _of_partition(items: Iterable[Any], f: Callable[[Iterator[Any]], Iterable[Any]]) -> list[Any]:
    return list(f(iter(items)))


def _pairs(first: Iterable[Any], second: Iterable[Any]) -> list[tuple[Any, Any]]:
    one, other = list(first), list(second)
    if len(one) != len(other):
        raise InvalidInput(f"zip() is with as many items in each partition, got {len(other)} for {len(one)}")
    return list(zip(one, other, strict=True))


def _sum(items: Iterator[Any]) -> list[Any]:
    return [sum(items)]


def _reduced(f: Callable[[Any, Any], Any], items: Iterator[Any]) -> list[Any]:
    listed = list(items)
    return [functools.reduce(f, listed)] if listed else []


def _called(f: Callable[[Iterator[Any]], Any], items: Iterator[Any]) -> list[Any]:
    f(items)
    return []


def _write_lines(items: Iterable[Any], path: str, number: int) -> None:
    system, root = files.opened(path)
    with system.open(f"{root}/part-{number:05d}", "wt", encoding="utf-8") as file:
        file.writelines(f"{item}\n" for item in items)
