"""Partitions in the form that training tasks expect, assembled by Dask tasks from the parts of a collection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import InvalidInput
from ...schema.partitions import Described

Partition = tuple[int, Described, list[np.ndarray[Any, Any]], int]
"""The number of examples, their description, their arrays, and the size of the largest example in bytes. It is a plain
tuple so that Dask can measure its memory.
"""
PartOf = tuple[int, str, str, list[Any], bool]
"""The arguments of ``assemble``. The parts may contain delayed objects and futures."""
_OWN_KINDS = "biufc"
_OWN_NAMES = ("bfloat16", "float8_e4m3fn", "float8_e5m2")


def assemble(number: int, field: str, floatx: str, parts: Sequence[Any], holds_all: bool = True) -> Partition:
    """Assemble a partition. Runs in a Dask worker.

    Args:
        number: The number of the partition, for error messages.
        field: The name of the argument that it belongs to, for error messages.
        floatx: The dtype to convert 64-bit floats to.
        parts: x, then y and sample_weight if given. Each is an array, a pandas object, the examples of a bag, or a
            structure of these.
        holds_all: The meaning of a tuple that is the only part. True: The tuple is ``(x,)``, ``(x, y)`` or
            ``(x, y, sample_weight)``, from a single object. False: The tuple contains a model's inputs.

    Raises:
        InvalidInput: If the parts cannot be used. The message names the partition.
    """
    try:
        parts = [part.stacked() if isinstance(part, Examples) else part for part in parts]
        if len(parts) == 1 and holds_all and isinstance(parts[0], (tuple, list)):  # Keras accepts both
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
    # Without y, Keras would interpret a tuple of several inputs as x and y.
    is_x = len(structure) == 1 and not isinstance(structure[0], tuple)
    return counts[0], Described(structure[0] if is_x else structure, like), leaves, _largest(leaves)


def assembly(part: PartOf, key: str) -> Any:
    """Return ``assemble`` as a ``dask.delayed`` object with that key."""
    from dask import delayed

    return delayed(assemble, pure=False)(*part, dask_key_name=key)


class Examples:
    """The examples of one partition of a bag. Each is a number, an array, or a dict or tuple of these."""

    def __init__(self, items: Any) -> None:
        self.items = list(items)

    def stacked(self) -> Any:
        """Return the examples as one array per component. Raises ValueError if their structures differ."""
        return _stacked(self.items) if self.items else _Nothing()


class _Nothing:
    """Stands for an empty partition of a bag, for which the structure of the examples is unknown."""


NOTHING = Described(None, ())
"""The description of an empty partition of a bag."""


def _stacked(items: list[Any]) -> Any:
    first = items[0]
    if isinstance(first, dict):
        if any(not isinstance(item, dict) or item.keys() != first.keys() for item in items):
            raise ValueError(f"its examples must have the same keys, {sorted(map(str, first))}")
        return {key: _stacked([item[key] for item in items]) for key in first}
    if isinstance(first, (tuple, list)):
        if any(not isinstance(item, (tuple, list)) or len(item) != len(first) for item in items):
            raise ValueError(f"its examples must be tuples of length {len(first)}")
        return tuple(_stacked([item[place] for item in items]) for place in range(len(first)))
    return np.stack([np.asarray(item) for item in items])


def _taken(value: Any, leaves: list[np.ndarray[Any, Any]], floatx: str) -> Any:
    """Return the structure of ``value``, adding its arrays to ``leaves``."""
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
        raise TypeError(f"it must consist of arrays or pandas objects, got {value!r:.100}")
    if not array.ndim:
        raise ValueError(f"its arrays must have a batch dimension, got {value!r:.100}")
    if array.dtype.kind in _OWN_KINDS or array.dtype.name in _OWN_NAMES:
        return np.ascontiguousarray(array.astype(floatx) if array.dtype == np.float64 else array)
    if array.dtype.kind not in "USTO":
        raise TypeError(f"it must contain numbers, booleans or strings, got {array.dtype}")
    words = array.astype(object)
    if any(not isinstance(word, (str, bytes)) for word in words.flat):
        return _numbers(array, floatx)
    encoded = np.empty(words.size, object)
    encoded[:] = [word.encode() if isinstance(word, str) else word for word in words.flat]
    shaped: np.ndarray[Any, Any] = encoded.reshape(words.shape)
    return shaped


def _numbers(array: np.ndarray[Any, Any], floatx: str) -> np.ndarray[Any, Any]:
    """Convert an object array of numbers, which pandas creates from columns of several types."""
    numbers: np.ndarray[Any, Any] = np.asarray(array.tolist())
    if numbers.dtype.kind not in _OWN_KINDS:
        raise TypeError(f"it must contain numbers, booleans or strings, all of one kind, got {array.flat[0]!r:.100}")
    return np.ascontiguousarray(numbers.astype(floatx) if numbers.dtype == np.float64 else numbers)


def _largest(leaves: list[np.ndarray[Any, Any]]) -> int:
    """Return the size of the largest example in bytes."""
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
    """Return the partition's examples with the indices ``rows``, as arrays.

    Raises InvalidInput if the partition's description is not ``described``.
    """
    if partition[1] != described:
        raise InvalidInput(
            f"All partitions must have examples of the same dtypes and shapes, {described} as in the first nonempty "
            f"one, got {partition[1]} in partition {number}"
        )
    return [leaf[rows] for leaf in partition[2]]


def unknown(keys: list[str], dask_scheduler: Any) -> list[str]:
    """Return the keys for which the scheduler has no task. Called with ``Client.run_on_scheduler``."""
    return [key for key in keys if key not in dask_scheduler.tasks]
