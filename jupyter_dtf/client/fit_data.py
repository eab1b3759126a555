"""The data of a ``fit``: arrays and functions checked, and made to travel."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..backend.task.fed_program import FIELD, Fed
from ..backend.task.fit.job import Arrays, Data, DataFunction
from ..backend.task.fit.sources.base import BatchSource
from ..errors import InvalidInput
from .holding import Held
from .sources import SOURCES
from .sources.dask_collections import DaskCollections
from .sources.large_arrays import stored_array
from .sources.streams import is_stream, name_of

_DATA = (
    "x must be data as keras.Model.fit takes it (arrays, a tf.data.Dataset, a PyDataset, a generator), a Dask "
    "collection, or a function data_fn(ctx) that returns a tf.data.Dataset"
)


def data_of(x: Any, y: Any, sample_weight: Any, field: str) -> Data:
    """The examples as they travel. Raises InvalidInput for what cannot, and for lengths that differ."""
    if x is None:
        raise InvalidInput(f"{_DATA}. Received: None", field=field)
    for source_of in SOURCES:
        source = source_of(x, y, sample_weight, field)
        if source is not None:
            return source
    if is_function(x):
        refuse_beside("the dataset that the function returns", y, sample_weight)
        return DataFunction(x)
    arrays = Arrays(as_arrays(x, "x"), as_arrays(y, "y"), as_arrays(sample_weight, "sample_weight"))
    length_of(arrays)
    return arrays


def is_function(x: Any) -> bool:
    """Whether ``x`` is a function ``data_fn(ctx)``."""
    return callable(x) and not hasattr(x, "__array__")


def refuse_beside(what: str, y: Any, sample_weight: Any) -> None:
    """Raise InvalidInput for labels or weights beside data that has them in it."""
    for name, value in (("y", y), ("sample_weight", sample_weight)):
        if value is not None:
            raise InvalidInput(f"{name} must be in {what}, not beside it. Received both", field=name)


def check_batch_size(data: Data, batch_size: int) -> None:
    """Raise InvalidInput for a batch size where the data has batches of its own."""
    if isinstance(data, DataFunction) or (isinstance(data, BatchSource) and data.has_own_batches):
        what = data.what if isinstance(data, BatchSource) else "a function's dataset"
        raise InvalidInput(
            f"batch_size must be left out, for {what} has batches of its own. Received: batch_size={batch_size!r}",
            field="batch_size",
        )


def runs_own_code(data: Data | None) -> bool:
    """Whether reading the data in a task runs code of the caller's."""
    return isinstance(data, DataFunction) or (isinstance(data, BatchSource) and data.runs_own_code)


def validation_of(data: Any) -> Data | None:
    """``validation_data`` as it travels. Raises InvalidInput."""
    if data is None:
        return None
    if isinstance(data, tuple):
        if len(data) not in (2, 3):
            raise InvalidInput(
                "validation_data is (x, y), (x, y, sample_weight), or data of any form that x may have. Received: "
                f"{len(data)} values",
                field="validation_data",
            )
        return data_of(data[0], data[1], data[2] if len(data) == 3 else None, "validation_data")
    return data_of(data, None, None, "validation_data")


def fed_with(feed: Any, batch_size: int | None, shuffle: bool, client: Callable[[], Any]) -> tuple[Fed, list[Held]]:
    """The ``feed`` of a run as it travels, and what has to be held for it. ``client()`` is the cluster's Dask client.

    Raises InvalidInput.
    """
    x, y, sample_weight = (*feed, None)[:3] if isinstance(feed, tuple) and len(feed) in (2, 3) else (feed, None, None)
    if is_stream(x):  # before a batch of it is read
        raise InvalidInput(
            f"feed must be data that can be read again, for each iteration over ctx.feed() is a pass over all of it, "
            f"got {name_of(x)} {x!r:.200}. Pass a keras.utils.PyDataset or a tf.data.Dataset; cluster.fit takes "
            "generators",
            field=FIELD,
        )
    data = data_of(x, y, sample_weight, FIELD)
    if isinstance(data, DataFunction):
        raise InvalidInput(
            f"feed must be data, not a function of ctx, which main_fun can call itself, got {feed!r:.200}", field=FIELD
        )
    if batch_size is not None:
        if isinstance(batch_size, bool) or not isinstance(batch_size, (int, np.integer)) or batch_size < 1:
            raise InvalidInput(f"batch_size must be a whole number, 1 or more, got {batch_size!r}", field="batch_size")
        check_batch_size(data, batch_size)
    return Fed(data, batch_size, random.getrandbits(31) if shuffle else None), held_by([data], client)


def held_by(data: Iterable[Data | None], client: Callable[[], Any]) -> list[Held]:
    """Have the cluster compute what of the data it is to hold, and say what is held then. Raises InvalidInput."""
    held = [each for each in data if isinstance(each, DaskCollections)]
    for each in held:
        each.compute_on(client())
    return list(held)


def as_arrays(value: Any, name: str) -> Any:
    """The same structure with NumPy arrays at its leaves; pandas objects as Keras takes them."""
    if value is None:
        return None
    if isinstance(value, dict):
        return {key: as_arrays(item, name) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(as_arrays(item, name) for item in value)
    if (stored := stored_array(value, name)) is not None:
        return stored
    kind = type(value)
    if kind.__module__.partition(".")[0] == "pandas":
        array = value.to_numpy()
        array = array[:, None] if array.ndim == 1 else array  # a Series is a column, as in Keras
    elif hasattr(value, "__array__") and not hasattr(value, "tocsr") and not hasattr(value, "row_splits"):
        array = np.asarray(value)
    else:
        raise InvalidInput(
            f"{name} is an array, or a dict or list of them (np.asarray makes one); ragged and sparse data come from a "
            f"tf.data.Dataset in the place of x, where the strategy takes them. Received: {value!r:.200}",
            field=name,
        )
    if array.ndim == 0:
        raise InvalidInput(
            f"The arrays of {name} have a first dimension, the examples. Received: {value!r}", field=name
        )
    if array.dtype.kind not in "biufc" and array.dtype.name not in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        return _words(array, name)
    keras = sys.modules.get("keras")
    if array.dtype == np.float64 and (keras is None or keras.config.floatx() == "float32"):
        array = array.astype(np.float32)  # as Keras does, and half as much to send
    return np.ascontiguousarray(array)


def _words(array: np.ndarray[Any, Any], name: str) -> Any:
    """An array of strings as TensorFlow has them: of objects, each of them bytes."""
    words = array.astype(object) if array.dtype.kind in "USTO" else np.empty(0, object)
    found = [word for word in words.flat if not isinstance(word, (str, bytes))][:1] if words.size else [array.dtype]
    if found:
        raise InvalidInput(
            f"The arrays of {name} must hold numbers, truth values or strings, all of one kind. Received: "
            f"{array.dtype} with {found[0]!r:.100}",
            field=name,
        )
    encoded = np.empty(words.size, object)
    encoded[:] = [word.encode() if isinstance(word, str) else word for word in words.flat]
    return encoded.reshape(words.shape)


def _leaves(value: Any) -> list[np.ndarray[Any, Any]]:
    if value is None:
        return []
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    if isinstance(value, tuple):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]


def length_of(arrays: Arrays) -> int:
    """How many examples there are. Raises InvalidInput where that differs among the arrays, or is none."""
    lengths = [len(a) for part in (arrays.x, arrays.y, arrays.sample_weight) for a in _leaves(part)]
    if not lengths or len(set(lengths)) != 1 or not lengths[0]:
        raise InvalidInput(
            f"x, y and sample_weight hold equally many examples, at least one. Received: {lengths}", field="x"
        )
    return lengths[0]


def split_off(data: Data, fraction: float) -> tuple[Data, Data]:
    """Training and validation data, the latter the last ``fraction`` of the examples."""
    if not isinstance(data, Arrays):
        raise InvalidInput(
            f"validation_split divides arrays: with other data pass validation_data. Received: {fraction}",
            field="validation_split",
        )
    count = length_of(data)
    cut = int(np.floor(count * (1 - fraction))) if 0 < fraction < 1 else 0
    if not 0 < cut < count:
        raise InvalidInput(
            f"validation_split is between 0 and 1 and leaves examples on both sides. Received: {fraction} of {count}",
            field="validation_split",
        )

    def part(value: Any, chosen: slice) -> Any:
        if isinstance(value, dict):
            return {key: part(item, chosen) for key, item in value.items()}
        if isinstance(value, tuple):
            return tuple(part(item, chosen) for item in value)
        return None if value is None else value[chosen]

    def parts(chosen: slice) -> Arrays:
        return Arrays(part(data.x, chosen), part(data.y, chosen), part(data.sample_weight, chosen))

    return parts(slice(0, cut)), parts(slice(cut, None))
