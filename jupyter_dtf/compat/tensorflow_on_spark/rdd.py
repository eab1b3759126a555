"""``RDD``: a Dask bag with the methods of Spark's RDD that programs use."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from ...errors import Conflict, InvalidInput
from . import part_files


class Context(Protocol):
    """The part of a ``SparkContext`` that its collections need."""

    @property
    def client(self) -> Any: ...

    def compute(self, what: Any) -> Any: ...

    def union(self, rdds: Sequence[RDD]) -> RDD: ...

    def createDataFrame(self, data: Any, columns: Sequence[str]) -> Any: ...


class RDD:
    """A partitioned collection of a ``SparkContext``. Unless it is cached, it is recomputed for every requested result.

    ``bag`` is the Dask bag, with all of Dask's methods.
    """

    def __init__(self, bag: Any, context: Context) -> None:
        self.bag = bag
        self.context = context

    # -- transformations, computed later ------------------------------------------------------------------------

    def map(self, f: Callable[[Any], Any]) -> RDD:
        """Apply ``f`` to each item."""
        return RDD(self.bag.map(f), self.context)

    def filter(self, f: Callable[[Any], Any]) -> RDD:
        """Keep the items for which ``f`` is true."""
        return RDD(self.bag.filter(f), self.context)

    def flatMap(self, f: Callable[[Any], Iterable[Any]]) -> RDD:
        """Apply ``f`` to each item, and concatenate the results."""
        return RDD(self.bag.map(f).flatten(), self.context)

    def mapPartitions(self, f: Callable[[Iterator[Any]], Iterable[Any]]) -> RDD:
        """Apply ``f`` to the items of each partition."""
        return RDD(self.bag.map_partitions(_of_partition, f), self.context)

    def zip(self, other: RDD) -> RDD:
        """Pair the items with those of another RDD that has the same number of partitions, with the same sizes.

        Raises InvalidInput if the numbers of partitions differ and, during computation, if their sizes differ.
        """
        import dask.bag as db

        if self.getNumPartitions() != other.getNumPartitions():
            raise InvalidInput(
                "zip() requires the same number of partitions, got "
                f"{other.getNumPartitions()} for {self.getNumPartitions()}"
            )
        return RDD(db.map_partitions(_pairs, self.bag, other.bag), self.context)

    def union(self, other: RDD) -> RDD:
        """Return an RDD with the partitions of this RDD, followed by those of the other."""
        return self.context.union([self, other])

    def repartition(self, numPartitions: int) -> RDD:
        """Divide the items into ``numPartitions`` partitions."""
        return RDD(self.bag.repartition(npartitions=numPartitions), self.context)

    def cache(self) -> RDD:
        """Start computing the partitions now, and keep them in the workers' memory."""
        self.bag = self.context.client.persist(self.bag)
        return self

    persist = cache

    def toDF(self, columns: Sequence[str]) -> Any:
        """Convert rows (sequences with a value for each column) to a Dask dataframe."""
        return self.context.createDataFrame(self, columns)

    # -- results ------------------------------------------------------------------------------------------------

    def getNumPartitions(self) -> int:
        """Return the number of partitions."""
        return int(self.bag.npartitions)

    def collect(self) -> list[Any]:
        """Return all items as a local list."""
        items: list[Any] = self._computed(self.bag)
        return list(items)

    def count(self) -> int:
        """Return the number of items."""
        return int(self._computed(self.bag.count()))

    def sum(self) -> Any:
        """Return the sum of the items: numbers, or arrays of the same shape."""
        return sum(self.mapPartitions(_sum).collect())

    def reduce(self, f: Callable[[Any, Any], Any]) -> Any:
        """Combine items with ``f``, two at a time, until a single value remains.

        Raises InvalidInput if there are no items.
        """
        parts = self.mapPartitions(functools.partial(_reduced, f)).collect()
        if not parts:
            raise InvalidInput("reduce() requires at least one item")
        return functools.reduce(f, parts)

    def take(self, num: int) -> list[Any]:
        """Return the first ``num`` items, computing only as many partitions as needed."""
        found: list[Any] = []
        for part in self.bag.to_delayed():
            if len(found) >= num:
                break
            found += list(self._computed(part))
        return found[:num]

    def first(self) -> Any:
        """Return the first item. Raises InvalidInput if there are no items."""
        found = self.take(1)
        if not found:
            raise InvalidInput("first() requires at least one item")
        return found[0]

    def foreach(self, f: Callable[[Any], Any]) -> None:
        """Call ``f`` with each item, in the workers."""
        self.map(f).count()

    def foreachPartition(self, f: Callable[[Iterator[Any]], Any]) -> None:
        """Call ``f`` with the items of each partition, in the workers."""
        self.mapPartitions(functools.partial(_called, f)).count()

    def saveAsTextFile(self, path: str) -> None:
        """Write a file ``part-00000``... for each partition to a new directory, with a line for each item.

        Raises Conflict if the path exists, and Unavailable if it cannot be accessed from here.
        """
        system, root = part_files.opened(path)
        if system.exists(root):
            raise Conflict(f"`path` must be a new directory for saveAsTextFile(), got {path!r}, which exists")
        system.makedirs(root, exist_ok=True)
        from dask import delayed

        write = delayed(_write_lines, pure=False)
        url, parts = part_files.absolute(path), self.bag.to_delayed()
        self._computed([write(part, url, number) for number, part in enumerate(parts)])
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
        raise InvalidInput(f"zip() requires partitions with the same number of items, got {len(other)} for {len(one)}")
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
    system, root = part_files.opened(path)
    with system.open(f"{root}/part-{number:05d}", "wt", encoding="utf-8") as file:
        file.writelines(f"{item}\n" for item in items)
