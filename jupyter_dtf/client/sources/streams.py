"""Generators and iterators: read here, in the client, while a run trains on them."""

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

PEEKED = 2
"""Batches that are read at once. As many tell Keras which dimensions are the same in all of them."""


def source_of(x: Any, y: Any, sample_weight: Any, field: str) -> StreamSource | None:
    """The source of a generator or another iterator; None for anything else. Raises InvalidInput, and what it raises.

    A ``tf.data`` iterator is one, too.
    """
    if not is_stream(x):
        return None
    what = name_of(x)
    for name, value in (("y", y), ("sample_weight", sample_weight)):
        if value is not None:
            raise InvalidInput(f"{name} must be in what {what} yields, not beside it. Received both", field=name)
    return stream_of(x, field, what)


def is_stream(x: Any) -> bool:
    """Whether it is a generator or another iterator."""
    return hasattr(x, "__next__") and not hasattr(x, "__array__")


def name_of(stream: Any) -> str:
    """How messages call it."""
    return "the generator" if hasattr(stream, "gi_frame") else "the iterator"


def stream_of(iterator: Iterator[Any], field: str, what: str) -> StreamSource:
    """A source of what an iterator yields here: ``(x,)``, ``(x, y)`` or ``(x, y, sample_weight)``, or one ``x``.

    Its first two batches are read at once; the others while a run trains on them. ``what`` is how messages call it.
    Raises InvalidInput for what is no batch, and what the iterator raises.
    """
    reader, batches = None, []
    for number, value in enumerate(itertools.islice(iterator, PEEKED), 1):
        # Copied before the next is asked for. Keras keeps two as they are: a generator that fills one array again and
        # again has it train on the second batch in place of the first.
        if reader is None:
            structure = numbered(parts_of(value, field, what), [])
            reader = Reader(iterator, structure, [], field, what)
        try:
            batches.append(reader.batch(value))
        except InvalidInput as error:
            raise InvalidInput(f"Batch {number} of {what}: {error}", field=field) from None
    if reader is None:
        raise InvalidInput(f"{first_upper(what)} must yield at least one batch. Received: an empty one", field=field)
    reader.leaves = leaves_of(batches, field, what)
    name, secret = secrets.token_hex(8), secrets.token_hex(32)
    close = getattr(iterator, "close", lambda: None)
    feed = Feed(name, secret, what, itertools.chain(batches, reader), close, trains=field == "x")
    return StreamSource(name, secret, structure, reader.leaves, what, feed)


class Reader:
    """An iterator over batches as they are sent, of an iterator's values."""

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
        """One value, copied: a generator may fill the same array again. Raises InvalidInput where it differs."""
        found: list[Any] = []
        structure = numbered(parts_of(value, self._field, self._what), found)
        if structure != self._structure:
            raise InvalidInput(
                f"All batches must be of one structure: {_described(self._structure)}. Received: "
                f"{_described(structure)}",
                field=self._field,
            )
        arrays = [_array(leaf, self._field) for leaf in found]
        counts = [len(array) for array in arrays]
        if len(set(counts)) > 1:
            raise InvalidInput(f"Its arrays must hold equally many examples. Received: {counts}", field=self._field)
        for array, leaf in zip(arrays, self.leaves, strict=False):
            _check(array, leaf, self._field)
        return Batch(arrays, counts[0], sum(_size(array) for array in arrays))


def parts_of(value: Any, field: str, what: str) -> tuple[Any, ...]:
    """What is yielded, as Keras packs it."""
    parts = value if isinstance(value, tuple) else (value,)
    if isinstance(value, list) or not 1 <= len(parts) <= 3:
        received = f"{type(value).__name__} of {len(value)}"
        raise InvalidInput(
            f"{first_upper(what)} yields (x,), (x, y) or (x, y, sample_weight), a tuple. Received: a {received}",
            field=field,
        )
    while len(parts) > 1 and parts[-1] is None:
        parts = parts[:-1]
    return parts


def numbered(value: Any, leaves: list[Any]) -> Any:
    """The structure with a number for each leaf, which are appended; lists become tuples, as in ``tf.data``."""
    if isinstance(value, dict):
        return {key: numbered(value[key], leaves) for key in sorted(value)}
    if isinstance(value, (list, tuple)):
        return tuple(numbered(item, leaves) for item in value)
    leaves.append(value)
    return len(leaves) - 1


def _array(leaf: Any, field: str) -> Any:
    """A leaf as a contiguous array of its own. Raises InvalidInput for what is none."""
    sparse = hasattr(leaf, "tocsr") or hasattr(leaf, "row_splits") or hasattr(leaf, "dense_shape")
    if leaf is None or sparse:
        raise InvalidInput(f"Batches must be of dense arrays. Received: {leaf!r:.200}", field=field)
    if hasattr(leaf, "detach"):
        leaf = leaf.detach().cpu()
    array = np.array(leaf, order="C")
    if array.ndim < 1:
        raise InvalidInput(
            f"Arrays of a batch have a first dimension, the examples. Received: {leaf!r:.200}", field=field
        )
    if array.dtype.kind in "USTO":
        words = [word.encode() if isinstance(word, str) else word for word in array.reshape(-1).tolist()]
        if not all(isinstance(word, bytes) for word in words):
            raise InvalidInput(f"Arrays of objects must hold strings. Received: {leaf!r:.200}", field=field)
        encoded = np.empty(len(words), object)
        encoded[:] = words
        return encoded.reshape(array.shape)
    is_number = array.dtype.kind in "biufc" or array.dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2")
    if not is_number or array.dtype.name in ("float128", "float96", "complex256", "complex192"):
        raise InvalidInput(f"Arrays must hold numbers, truth values or strings. Received: {array.dtype}", field=field)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _size(array: Any) -> int:
    return sum(map(len, array.reshape(-1))) + 16 * array.size if array.dtype == object else int(array.nbytes)


def leaves_of(batches: list[Batch], field: str, what: str) -> list[Leaf]:
    """What is known of the leaves: the first dimension is a batch's own, and so are those that differ in the first
    batches. Raises InvalidInput where they have no such thing in common.
    """
    leaves = []
    for arrays in zip(*(batch.leaves for batch in batches), strict=True):
        kinds = {(array.dtype, array.ndim) for array in arrays}
        if len(kinds) > 1:
            raise InvalidInput(
                f"All batches of {what} must be of one type and number of dimensions. Received: "
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
            f"An array must be {leaf.dtype} of shape {leaf.shape}, None where the first {PEEKED} batches differ, as "
            f"those were. Received: {array.dtype} of shape {array.shape}",
            field=field,
        )


def _described(structure: Any) -> str:
    if isinstance(structure, dict):
        return "{" + ", ".join(f"{key!r}: {_described(item)}" for key, item in structure.items()) + "}"
    if isinstance(structure, tuple):
        return "(" + ", ".join(map(_described, structure)) + ("," if len(structure) == 1 else "") + ")"
    return "array"


def first_upper(text: str) -> str:
    return text[:1].upper() + text[1:]
