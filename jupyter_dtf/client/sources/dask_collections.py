"""Dask collections as data: partitions that the cluster's own scheduler computes and its workers hold."""

from __future__ import annotations

import math
import sys
import time
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import cloudpickle

from ...backend.machine.partition import Examples, PartOf, assembly, unknown
from ...backend.task.fit.sources.partitions import Partitions
from ...errors import InvalidInput
from ...schema.partitions import Collection
from ..feed import Feed

if TYPE_CHECKING:
    from distributed import Client


_LOOK_S = 0.02


class DaskCollections(Partitions):
    """Partitions that have not been computed yet. They are sent as ``Partitions``, which is all that a task needs."""

    def __init__(self, collection: Collection, parts: list[PartOf], given: list[Any]) -> None:
        """``parts``: the source of each partition, for ``assembly``. ``given``: the collections that they come from."""
        super().__init__(collection)
        self._parts = parts
        self._given = given

    def __reduce__(self) -> Any:
        return Partitions, (self.collection,)

    def compute_on(self, client: Client) -> Computed:
        """Start computing the partitions on the cluster. Return a handle that holds them until ``release``.

        If the partitions are computed again in every pass, nothing is started. Raises InvalidInput for parts that
        belong to another scheduler.
        """
        _check_futures(self._given, client)
        if self.collection.graph is not None:
            return Computed([])
        keys = list(self.collection.keys)
        delayed = [assembly(part, key) for part, key in zip(self._parts, keys, strict=True)]
        computed = Computed(client.compute(delayed, retries=self.collection.retries))  # type: ignore[no-untyped-call]
        # The scheduler reads a large graph in the background; until then, it does not know the keys of the partitions.
        while computed.is_pending and client.run_on_scheduler(unknown, keys):  # type: ignore[no-untyped-call]
            time.sleep(_LOOK_S)
        return computed


class Computed:
    """Partitions that a scheduler holds for one run; other runs on the same collection have their own."""

    def __init__(self, futures: list[Any]) -> None:
        self._futures = futures

    @property
    def is_pending(self) -> bool:
        """Whether the scheduler has not yet reported the state of every partition."""
        return any(future.status == "pending" for future in self._futures)

    def release(self) -> None:
        """Let the workers free the partitions that are not held elsewhere."""
        self._futures = []


def source_of(x: Any, y: Any, sample_weight: Any, field: str) -> DaskCollections | None:
    """Return the source for Dask collections; None for other data. Raises InvalidInput if they do not match."""
    feed = x if isinstance(x, Feed) else Feed(x, y, sample_weight)
    if isinstance(x, Feed) and (y is not None or sample_weight is not None):
        raise InvalidInput(f"y and sample_weight must be contained in the Feed passed as `{field}`", field=field)
    named = {"x": feed.x, "y": feed.y, "sample_weight": feed.sample_weight}
    given = {name: value for name, value in named.items() if value is not None}
    if not any(_is_lazy(leaf) for value in given.values() for leaf in _leaves(value)):
        if isinstance(x, Feed):
            raise InvalidInput(f"A Feed must contain Dask collections, got {feed.x!r:.200}", field=field)
        return None
    for name, value in given.items():
        for leaf in _leaves(value):
            if not _is_lazy(leaf):
                raise InvalidInput(
                    f"x, y and sample_weight must all be Dask collections if one of them is, got {leaf!r:.100} in "
                    f"{name}",
                    field=name,
                )
    if feed.sample_weight is not None and feed.y is None:
        raise InvalidInput("`sample_weight` must be given with y, got no y", field="sample_weight")
    # A single object passed as x may contain y; a structure of collections contains only the model's inputs.
    holds_all = _is_lazy(feed.x) or _are_partitions(feed.x)
    chunks = next(map(_chunks, (leaf for value in given.values() for leaf in _leaves(value))), None)
    divided = {name: [_divided(leaf, name, chunks) for leaf in _leaves(value)] for name, value in given.items()}
    lengths = _common_lengths(divided, field)
    floatx = keras.config.floatx() if (keras := sys.modules.get("keras")) is not None else "float32"
    parts: list[PartOf] = []
    for number in range(len(lengths)):
        of_number = []
        for name, value in given.items():
            leaves = iter([partitions[number] for partitions, _ in divided[name]])
            of_number.append(_replaced(value, leaves))
        parts.append((number, field, floatx, of_number, holds_all))
    token = uuid.uuid4().hex[:12]
    known = [n for n in lengths if n is not None]
    collection = Collection(
        keys=tuple(f"dtf-{token}-{number}" for number in range(len(parts))),
        lengths=tuple(known) if len(known) == len(lengths) else None,
        graph=cloudpickle.dumps(parts) if feed.compute == "each_epoch" else None,
        retries=int(feed.retries),
        shuffle_buffer=int(feed.shuffle_buffer),
    )
    return DaskCollections(collection, parts, list(given.values()))


def _is_one_of(value: Any, module: str, name: str) -> bool:
    """Return whether ``value`` is an instance of a class, without importing the class.

    Attributes do not identify the class, because delayed objects have every attribute.
    """
    found = sys.modules.get(module)
    return found is not None and isinstance(value, getattr(found, name))


def _is_future(value: Any) -> bool:
    return _is_one_of(value, "distributed.client", "Future")


def _is_lazy(value: Any) -> bool:
    if not hasattr(type(value), "__dask_graph__"):
        return _is_future(value)
    if hasattr(type(value), "to_delayed") or _is_delayed(value) or isinstance(value, _Parts):
        return True  # computing a dataframe's graph is slow
    return value.__dask_graph__() is not None  # other types may wrap arrays that are not lazy


def _are_partitions(value: Any) -> bool:
    """Return whether ``value`` is a list of delayed objects or futures, each of which is a partition."""
    return isinstance(value, list) and bool(value) and all(_is_future(v) or _is_delayed(v) for v in value)


def _is_delayed(value: Any) -> bool:
    return _is_one_of(value, "dask.delayed", "Delayed")


def _kind(value: Any) -> str:
    """Return the kind of collection: ``array``, ``dataframe``, ``bag``, ``Delayed`` or ``Future``."""
    if _is_future(value):
        return "Future"
    if _is_delayed(value):
        return "Delayed"
    if hasattr(value, "chunks") and hasattr(value, "dtype"):
        return "array"
    return "dataframe" if hasattr(value, "divisions") else "bag"


def _leaves(value: Any) -> list[Any]:
    """Return the collections in a structure; a list of delayed objects or futures counts as one collection."""
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    if isinstance(value, (list, tuple)) and not _are_partitions(value) and not _is_lazy(value):
        return [leaf for item in value for leaf in _leaves(item)]
    return [_Parts(value)] if _are_partitions(value) else [value]


class _Parts:
    """A list of delayed objects or futures, as one collection."""

    def __init__(self, parts: list[Any]) -> None:
        self.parts = parts

    def __dask_graph__(self) -> Any:
        return {}


def _replaced(value: Any, leaves: Iterator[Any]) -> Any:
    """Return the structure of ``value`` with its collections replaced by ``leaves``."""
    if isinstance(value, dict):
        return {key: _replaced(item, leaves) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and not _are_partitions(value) and not _is_lazy(value):
        return tuple(_replaced(item, leaves) for item in value)
    return next(leaves)


def _chunks(value: Any) -> Any:
    """Return the numbers of examples in an array's partitions; None if unknown, or if ``value`` is not an array."""
    if isinstance(value, _Parts) or _kind(value) != "array" or not value.ndim:
        return None
    return None if any(math.isnan(n) for n in value.chunks[0]) else value.chunks[0]


def _divided(value: Any, name: str, chunks: Any) -> tuple[list[Any], list[int | None]]:
    """Return a collection's partitions (delayed objects or futures), and the number of examples in each, if known."""
    from dask import delayed

    if isinstance(value, _Parts):
        return value.parts, [None] * len(value.parts)
    kind = _kind(value)
    if kind in ("Future", "Delayed"):
        return [value], [None]
    if kind == "array":
        if not value.ndim:
            raise InvalidInput(
                f"`{name}` must have at least one dimension, for the examples, got {value!r:.200}", field=name
            )
        own = _chunks(value)
        if chunks is not None and own is not None and own != chunks and sum(own) == sum(chunks):
            value = value.rechunk({0: chunks})
        value = value.rechunk(dict.fromkeys(range(1, value.ndim), -1)) if value.ndim > 1 else value
        lengths = [None if math.isnan(n) else int(n) for n in value.chunks[0]]
        return list(value.to_delayed().ravel()), lengths
    if not hasattr(value, "to_delayed"):
        raise InvalidInput(
            f"`{name}` must be a Dask array, dataframe, bag, delayed object or future, got {value!r:.200}", field=name
        )
    parts = value.to_delayed()
    if kind == "bag":
        parts = [delayed(Examples, pure=False)(part) for part in parts]
    return list(parts), [None] * len(parts)


def _common_lengths(divided: dict[str, list[tuple[list[Any], list[int | None]]]], field: str) -> list[int | None]:
    """Return the number of examples in each partition (None: unknown).

    Raises InvalidInput if collections are partitioned differently.
    """
    counts = {name: [len(parts) for parts, _ in found] for name, found in divided.items()}
    flat = [count for of_name in counts.values() for count in of_name]
    if len(set(flat)) != 1 or not flat[0]:
        raise InvalidInput(
            f"The collections in `{field}` must have equal numbers of partitions, at least one, got "
            f"{', '.join(f'{count} in {name}' for name, of_name in counts.items() for count in of_name)}",
            field=field,
        )
    lengths: list[int | None] = [None] * flat[0]
    for name, found in divided.items():
        for _, own in found:
            for number, length in enumerate(own):
                if length is not None and lengths[number] not in (None, length):
                    raise InvalidInput(
                        f"x, y and sample_weight must have the same number of examples in every partition, got "
                        f"{length} in partition {number} of {name} and {lengths[number]} elsewhere",
                        field=name,
                    )
                lengths[number] = length if length is not None else lengths[number]
    return lengths


def _check_futures(given: list[Any], client: Client) -> None:
    from distributed.client import futures_of

    here = _scheduler_of(client)
    for future in futures_of(given):  # type: ignore[no-untyped-call]
        if future.client is not client and _scheduler_of(future.client) != here:
            raise InvalidInput(
                "Futures and persisted collections must belong to the cluster's own Dask scheduler (cluster.client), "
                f"got {future.key!r:.100} of {future.client.scheduler.address}"
            )


def _scheduler_of(client: Any) -> Any:
    return client.scheduler_info()["id"]
