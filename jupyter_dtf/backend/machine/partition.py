"""A partition as the tasks of a training take it: what a Dask task makes of a part of a collection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import InvalidInput
from ...schema.partitions import Described

Partition = tuple[int, Described, list[np.ndarray[Any, Any]], int]
"""How many examples, what they are like, their arrays, the bytes of the largest one. Plain, so that Dask knows how much
memory it takes."""
PartOf = tuple[int, str, str, list[Any], bool]
"""The arguments of ``assemble``, in whose parts there are delayed objects and futures."""
_OWN_KINDS = "biufc"
_OWN_NAMES = ("bfloat16", "float8_e4m3fn", "float8_e5m2")


def assemble(number: int, field: str, floatx: str, parts: Sequence[Any], holds_all: bool = True) -> Partition:
    """The partition of that number. Runs in a Dask worker.

    ``parts``: x, then y and sample_weight if there are any, each an array, a pandas object, the examples of a bag or a
    structure of these. ``holds_all``: where ``x`` is alone, it is what one object gave, and a tuple is ``(x,)``, ``(x,
    y)`` or ``(x, y, sample_weight)``; otherwise a tuple is a model's inputs. Raises InvalidInput, which names the
    partition.
    """
    try:
        parts = [part.stacked() if isinstance(part, Examples) else part for part in parts]
        if len(parts) == 1 and holds_all and isinstance(parts[0], (tuple, list)):  # as Keras takes both
            parts = parts[0]
            if len(parts) not in (1, 2, 3):
                raise ValueError(f"it must be x, (x,), (x, y) or (x, y, sample_weight), got {len(parts)} values")
        leaves: list[np.ndarray[Any, Any]] = []
        structure = tuple(_taken(part, leaves, floatx) for part in parts)
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"Partition {number} of {field} cannot be used: {error}", field=field) from error
    counts = [len(leaf) for leaf in leaves]
    if not leaves:
        return 0, NOTHING, leaves, 0
    if len(set(counts)) > 1:
        raise InvalidInput(
            f"x, y and sample_weight must have the same number of examples in every partition, got "
            f"{', '.join(map(str, counts))} in partition {number} of {field}",
            field=field,
        )
    like = tuple((_dtype(leaf), leaf.shape[1:]) for leaf in leaves)
    # Keras would take several inputs in a tuple that is all there is for x and y.
    is_x = len(structure) == 1 and not isinstance(structure[0], tuple)
    return counts[0], Described(structure[0] if is_x else structure, like), leaves, _largest(leaves)


def assembly(part: PartOf, key: str) -> Any:
    """``assemble`` as a ``dask.delayed`` object of that key."""
    from dask import delayed

    return delayed(assemble, pure=False)(*part, dask_key_name=key)


class Examples:
    """The examples of a bag's partition, of which each is a number, an array, a dict, or a tuple of them."""

    def __init__(self, items: Any) -> None:
        self.items = list(items)

    def stacked(self) -> Any:
        """The same, one array for each part of an example. Raises ValueError."""
        return _stacked(self.items) if self.items else _Nothing()


class _Nothing:
    """What an empty partition of a bag is made of: nobody knows what its examples would be like."""


NOTHING = Described(None, ())
"""How an empty partition of a bag is described."""


def _stacked(items: list[Any]) -> Any:
    first = items[0]
    if isinstance(first, dict):
        if any(not isinstance(item, dict) or item.keys() != first.keys() for item in items):
            raise ValueError(f"its examples must have the same keys, {sorted(map(str, first))}")
        return {key: _stacked([item[key] for item in items]) for key in first}
    if isinstance(first, (tuple, list)):
        if any(not isinstance(item, (tuple, list)) or len(item) != len(first) for item in items):
            raise ValueError(f"its examples must be tuples of {len(first)}")
        return tuple(_stacked([item[place] for item in items]) for place in range(len(first)))
    return np.stack([np.asarray(item) for item in items])


def _taken(value: Any, leaves: list[np.ndarray[Any, Any]], floatx: str) -> Any:
    """The structure of ``value``, whose arrays are added to ``leaves``."""
    if isinstance(value, _Nothing):
        return None
    if isinstance(value, dict):
        return {key: _taken(item, leaves, floatx) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(_taken(item, leaves, floatx) for item in value)
    leaves.append(_array(value, floatx))
    return len(leaves) - 1


def _array(value: Any, floatx: str) -> np.ndarray[Any, Any]:
    if type(value).__module__.partition(".")[0] == "pandas":
        array = value.to_numpy()
        array = array[:, None] if array.ndim == 1 else array  # a Series is a column, as in Keras
    elif hasattr(value, "__array__"):
        array = np.asarray(value)
    else:
        raise TypeError(f"it must be arrays or pandas objects, got {value!r:.100}")
    if not array.ndim:
        raise ValueError(f"its arrays must have a first dimension, the examples, got {value!r:.100}")
    if array.dtype.kind in _OWN_KINDS or array.dtype.name in _OWN_NAMES:
        return np.ascontiguousarray(array.astype(floatx) if array.dtype == np.float64 else array)
    if array.dtype.kind not in "USTO":
        raise TypeError(f"it must be of numbers, truth values or strings, got {array.dtype}")
    words = array.astype(object)
    if any(not isinstance(word, (str, bytes)) for word in words.flat):
        return _numbers(array, floatx)
    encoded = np.empty(words.size, object)
    encoded[:] = [word.encode() if isinstance(word, str) else word for word in words.flat]
    shaped: np.ndarray[Any, Any] = encoded.reshape(words.shape)
    return shaped


def _numbers(array: np.ndarray[Any, Any], floatx: str) -> np.ndarray[Any, Any]:
    """An array of objects that are numbers: columns of several types make one of pandas."""
    numbers: np.ndarray[Any, Any] = np.asarray(array.tolist())
    if numbers.dtype.kind not in _OWN_KINDS:
        raise TypeError(f"it must be of numbers, truth values or strings, all of one kind, got {array.flat[0]!r:.100}")
    return np.ascontiguousarray(numbers.astype(floatx) if numbers.dtype == np.float64 else numbers)


def _largest(leaves: list[np.ndarray[Any, Any]]) -> int:
    """The bytes of the example that has most."""
    if not len(leaves[0]):
        return 0
    sizes = np.zeros(len(leaves[0]), np.int64)
    for leaf in leaves:
        words = leaf.dtype.kind == "O"
        sizes += [sum(map(len, row)) for row in leaf.reshape(len(leaf), -1)] if words else leaf[:1].nbytes
    return int(sizes.max())


def _dtype(array: np.ndarray[Any, Any]) -> str:
    return array.dtype.name if array.dtype.kind != "O" else "object"


def cut(partition: Partition, rows: Any, number: int, described: Described) -> list[np.ndarray[Any, Any]]:
    """The examples ``rows``, by their numbers, of a partition. Raises InvalidInput if it is not as described."""
    if partition[1] != described:
        raise InvalidInput(
            f"Every partition must have examples of the same types and shapes. Received: {described} in the first one "
            f"that has some, {partition[1]} in partition {number}"
        )
    return [leaf[rows] for leaf in partition[2]]


def unknown(keys: list[str], dask_scheduler: Any) -> list[str]:
    """Those keys that the scheduler has no task of, asked by ``Client.run_on_scheduler``."""
    return [key for key in keys if key not in dask_scheduler.tasks]
