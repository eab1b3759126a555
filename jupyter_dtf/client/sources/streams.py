"""Generators and iterators, which are read in the client process while a run trains on them."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...backend.task.fit.sources.stream import Leaf, StreamSource
from ...errors import InvalidInput
from ..feed_window import Batch
from ..feeding import Feed
from .beside import refuse_beside

PEEKED = 2
"""The number of batches that are read immediately: as many as Keras reads to find out which dimensions are fixed."""


def source_of(x: Any, y: Any, sample_weight: Any, field: str) -> StreamSource | None:
    """Return the source for a generator or another iterator, including those of ``tf.data``; None for anything else.

    Raises InvalidInput, and any error of the iterator.
    """
    if not is_stream(x):
        return None
    what = name_of(x)
    refuse_beside(f"the values that {what} yields", y, sample_weight)
    return stream_of(x, field, what)


def is_stream(x: Any) -> bool:
    """Return whether ``x`` is a generator or another iterator."""
    return hasattr(x, "__next__") and not hasattr(x, "__array__")


def name_of(stream: Any) -> str:
    """Return the name of the stream in messages."""
    return "the generator" if hasattr(stream, "gi_frame") else "the iterator"


def stream_of(iterator: Iterator[Any], field: str, what: str) -> StreamSource:
    """Return the source for an iterator that yields ``(x,)``, ``(x, y)``, ``(x, y, sample_weight)`` or ``x``.

    The first two batches are read immediately, the others while a run trains on them. ``what`` is the iterator's name
    in messages. Raises InvalidInput for values that are not batches, and any error of the iterator.
    """
    reader, batches = None, []
    for number, value in enumerate(itertools.islice(iterator, PEEKED), 1):
        # Copied before the next one is requested. Keras does not copy these two: with a generator that reuses one
        # array, it trains on the second batch in place of the first.
        if reader is None:
            structure = numbered(parts_of(value, field, what), [])
            reader = Reader(iterator, structure, [], field, what)
        try:
            batches.append(reader.batch(value))
        except InvalidInput as error:
            raise InvalidInput(f"Batch {number} of {what}: {error}", field=field) from None
    if reader is None:
        raise InvalidInput(f"{first_upper(what)} must yield at least one batch, got none", field=field)
    reader.leaves = leaves_of(batches, field, what)
    name, secret = secrets.token_hex(8), secrets.token_hex(32)
    close = getattr(iterator, "close", lambda: None)
    feed = Feed(name, secret, what, itertools.chain(batches, reader), close, trains=field == "x")
    return StreamSource(name, secret, structure, reader.leaves, what, feed)


class Reader:
    """Converts an iterator's values to batches in the form in which they are sent."""

    def __init__(self, iterator: Iterator[Any], structure: Any, leaves: list[Leaf], field: str, what: str) -> None:
        self.leaves = leaves
        self._iterator = iterator
        self._structure = structure
        self._field = field
        self._what = what

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        return self.batch(next(self._iterator))

    def batch(self, value: Any) -> Batch:
        """Convert a value to a batch. Raises InvalidInput if its structure differs.

        The arrays are copied, because a generator may reuse them.
        """
        found: list[Any] = []
        structure = numbered(parts_of(value, self._field, self._what), found)
        if structure != self._structure:
            raise InvalidInput(
                f"All batches must have the same structure, {_described(self._structure)}, got {_described(structure)}",
                field=self._field,
            )
        arrays = [_array(leaf, self._field) for leaf in found]
        counts = [len(array) for array in arrays]
        if not counts:
            raise InvalidInput(f"Batches must contain dense arrays, got {value!r:.200}", field=self._field)
        if len(set(counts)) > 1:
            raise InvalidInput(f"Its arrays must have the same length, got {counts}", field=self._field)
        for array, leaf in zip(arrays, self.leaves, strict=False):
            _check(array, leaf, self._field)
        return Batch(arrays, counts[0], sum(_size(array) for array in arrays))


def parts_of(value: Any, field: str, what: str) -> tuple[Any, ...]:
    """Return a yielded value in the form of a tuple with 1 to 3 parts, as Keras packs it."""
    parts = value if isinstance(value, tuple) else (value,)
    if isinstance(value, list) or not 1 <= len(parts) <= 3:
        received = f"{type(value).__name__} of {len(value)}"
        raise InvalidInput(
            f"{first_upper(what)} must yield a tuple (x,), (x, y) or (x, y, sample_weight), got a {received}",
            field=field,
        )
    while len(parts) > 1 and parts[-1] is None:
        parts = parts[:-1]
    return parts


def numbered(value: Any, leaves: list[Any]) -> Any:
    """Return the structure with numbers in place of its leaves, which are appended to ``leaves``.

    Lists become tuples, and None remains.
    """
    if value is None:
        return None
    if isinstance(value, dict):
        return {key: numbered(value[key], leaves) for key in sorted(value)}
    if isinstance(value, (list, tuple)):
        return tuple(numbered(item, leaves) for item in value)
    leaves.append(value)
    return len(leaves) - 1


def _array(leaf: Any, field: str) -> Any:
    """Return a copy of a leaf as a contiguous array. Raises InvalidInput if it is not an array."""
    sparse = hasattr(leaf, "tocsr") or hasattr(leaf, "row_splits") or hasattr(leaf, "dense_shape")
    if sparse:
        raise InvalidInput(f"Batches must consist of dense arrays, got {leaf!r:.200}", field=field)
    if hasattr(leaf, "detach"):
        leaf = leaf.detach().cpu()
    array = np.array(leaf, order="C")
    if array.ndim < 1:
        raise InvalidInput(
            f"The arrays of a batch must have at least one dimension, for the examples, got {leaf!r:.200}", field=field
        )
    if array.dtype.kind in "USTO":
        words = [word.encode() if isinstance(word, str) else word for word in array.reshape(-1).tolist()]
        if not all(isinstance(word, bytes) for word in words):
            raise InvalidInput(f"Arrays of dtype object must contain strings, got {leaf!r:.200}", field=field)
        encoded = np.empty(len(words), object)
        encoded[:] = words
        return encoded.reshape(array.shape)
    is_number = array.dtype.kind in "biufc" or array.dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2")
    if not is_number or array.dtype.name in ("float128", "float96", "complex256", "complex192"):
        raise InvalidInput(f"Arrays must contain numbers, booleans or strings, got {array.dtype}", field=field)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _size(array: Any) -> int:
    return sum(map(len, array.reshape(-1))) + 16 * array.size if array.dtype == object else int(array.nbytes)


def leaves_of(batches: list[Batch], field: str, what: str) -> list[Leaf]:
    """Return the dtypes and shapes of the leaves. Raises InvalidInput if dtypes or ranks differ.

    The batch dimension, and dimensions that differ among the batches, are None.
    """
    leaves = []
    for arrays in zip(*(batch.leaves for batch in batches), strict=True):
        kinds = {(array.dtype, array.ndim) for array in arrays}
        if len(kinds) > 1:
            raise InvalidInput(
                f"All batches of {what} must have the same dtypes and ranks, got "
                f"{' and '.join(f'{array.dtype} of shape {array.shape}' for array in arrays)}",
                field=field,
            )
        known = [dims[0] if len(set(dims)) == 1 else None for dims in zip(*(a.shape for a in arrays), strict=True)]
        words = arrays[0].dtype == object
        leaves.append(Leaf((None, *known[1:]), arrays[0].dtype.name, words))
    return leaves


def _check(array: Any, leaf: Leaf, field: str) -> None:
    fits = array.ndim == len(leaf.shape) and all(
        n is None or n == m for n, m in zip(leaf.shape, array.shape, strict=True)
    )
    if not fits or array.dtype.name != leaf.dtype:
        raise InvalidInput(
            f"An array must be {leaf.dtype} of shape {leaf.shape} like those of the first {PEEKED} batches, got "
            f"{array.dtype} of shape {array.shape}",
            field=field,
        )


def _described(structure: Any) -> str:
    if isinstance(structure, dict):
        return "{" + ", ".join(f"{key!r}: {_described(item)}" for key, item in structure.items()) + "}"
    if isinstance(structure, tuple):
        return "(" + ", ".join(map(_described, structure)) + ("," if len(structure) == 1 else "") + ")"
    return "None" if structure is None else "array"


def first_upper(text: str) -> str:
    return text[:1].upper() + text[1:]
