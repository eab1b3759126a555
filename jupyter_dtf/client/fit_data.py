"""Validates the data of ``fit`` and prepares it to be sent."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..backend.task.fed_program import FIELD, Fed
from ..backend.task.fit.job import Arrays, Data, DataFunction
from ..backend.task.fit.sources.base import BatchSource
from ..backend.task.fit.sources.stream import StreamSource
from ..errors import InvalidInput
from ..schema.arguments import check_integer
from .held_resources import Held
from .sources import SOURCES
from .sources.beside import refuse_beside
from .sources.dask_collections import DaskCollections
from .sources.large_arrays import stored_array

_DATA = (
    "must be data that keras.Model.fit accepts (arrays, a tf.data.Dataset, a PyDataset, a generator), a Dask "
    "collection, or a function data_fn(ctx) that returns a tf.data.Dataset"
)


def data_of(x: Any, y: Any, sample_weight: Any, field: str) -> Data:
    """Return the examples in the form in which they are sent.

    Raises InvalidInput if the data is not supported, or if ``x``, ``y`` and ``sample_weight`` differ in length.
    """
    if x is None:
        raise InvalidInput(f"`{field}` {_DATA}, got None", field=field)
    for source_of in SOURCES:
        source = source_of(x, y, sample_weight, field)
        if source is not None:
            return source
    if is_function(x):
        refuse_beside("the dataset that the function returns", y, sample_weight)
        return DataFunction(x)
    names = ("x", "y", "sample_weight") if field == "x" else (field,) * 3
    arrays = Arrays(*(as_arrays(value, name) for value, name in zip((x, y, sample_weight), names, strict=True)))
    length_of(arrays)
    _check_weights(arrays, field)
    return arrays


def _check_weights(arrays: Arrays, field: str) -> None:
    """Raise InvalidInput, with Keras's message, for weights that Keras would reject."""
    y, weights = arrays.y, arrays.sample_weight
    if weights is None or not isinstance(y, (dict, tuple)):
        return
    where = "sample_weight" if field == "x" else field
    if isinstance(weights, (dict, tuple)):
        if not _is_alike(y, weights):
            raise InvalidInput(
                "You should provide one `sample_weight` array per output in `y`. The two structures did not match, got "
                f"y={_structure(y)}, sample_weight={_structure(weights)}",
                field=where,
            )
    elif not (weights.ndim == 1 or (weights.ndim == 2 and weights.shape[1] == 1)):
        raise InvalidInput(
            "For a model with multiple outputs, when providing a single `sample_weight` array, it should only have one "
            "scalar score per sample (i.e. shape `(num_samples,)`). If you want to use non-scalar sample weights, pass "
            f"a `sample_weight` argument with one array per model output, got shape {weights.shape}",
            field=where,
        )


def _is_alike(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(_is_alike(one[k], other[k]) for k in one)
    if isinstance(one, tuple):
        return isinstance(other, tuple) and len(one) == len(other) and all(map(_is_alike, one, other))
    return not isinstance(other, (dict, tuple))


def _structure(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_structure(item)}" for key, item in value.items()) + "}"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_structure, value)) + "]"
    return "None" if value is None else "array"


def check_one_output(data: Data, given: Any) -> None:
    """Raise InvalidInput, with Keras's message, for targets of several outputs: class weights require a single one.

    ``given``: the data as it was passed. Its ``element_spec``, if it has one, is checked.
    """
    targets = data.y if isinstance(data, Arrays) else None
    batch = data.structure if isinstance(data, StreamSource) else getattr(given, "element_spec", None)
    if not isinstance(data, Arrays) and isinstance(batch, tuple) and len(batch) > 1:
        targets = batch[1]
    if isinstance(targets, (dict, tuple)):
        raise InvalidInput(
            f"`class_weight` is only supported for Models with a single output, got targets for {len(targets)} outputs",
            field="class_weight",
        )


def is_function(x: Any) -> bool:
    """Return whether ``x`` is a function ``data_fn(ctx)``."""
    return callable(x) and not hasattr(x, "__array__")


def check_batch_size(data: Data, batch_size: int) -> None:
    """Raise InvalidInput if a batch size is given for data that is already batched."""
    if isinstance(data, DataFunction) or (isinstance(data, BatchSource) and data.has_own_batches):
        what = data.what if isinstance(data, BatchSource) else "a function's dataset"
        raise InvalidInput(
            f"`batch_size` must be left out for {what}, which is already batched, got {batch_size!r}",
            field="batch_size",
        )


def check_shuffle(shuffle: Any) -> None:
    """Raise InvalidInput unless ``shuffle`` is True or False."""
    if not isinstance(shuffle, (bool, np.bool_)):
        raise InvalidInput(
            "`shuffle` must be True or False ('batch', with which Keras changes the order within each batch, is not "
            f"supported), got {shuffle!r:.200}",
            field="shuffle",
        )


def runs_own_code(data: Data | None) -> bool:
    """Return whether reading the data in a task runs the caller's code."""
    return isinstance(data, DataFunction) or (isinstance(data, BatchSource) and data.runs_own_code)


def validation_of(data: Any) -> Data | None:
    """Return ``validation_data`` in the form in which it is sent. Raises InvalidInput."""
    if data is None:
        return None
    if isinstance(data, (list, tuple)):  # Keras interprets both as (x, y)
        if len(data) not in (2, 3):
            raise InvalidInput(
                "`validation_data` must be (x, y), (x, y, sample_weight), or data in any form that x may have, got "
                f"{len(data)} values",
                field="validation_data",
            )
        return data_of(data[0], data[1], data[2] if len(data) == 3 else None, "validation_data")
    return data_of(data, None, None, "validation_data")


def fed_with(feed: Any, batch_size: int | None, shuffle: bool, client: Callable[[], Any]) -> tuple[Fed, list[Held]]:
    """Return the ``feed`` of a run in the form in which it is sent, and the resources to hold until the run has ended.

    ``client()`` returns the cluster's Dask client. Raises InvalidInput.
    """
    x, y, sample_weight = (*feed, None)[:3] if isinstance(feed, tuple) and len(feed) in (2, 3) else (feed, None, None)
    data = data_of(x, y, sample_weight, FIELD)
    if isinstance(data, DataFunction):
        raise InvalidInput(
            f"`feed` must be data, not a function of ctx (main_fun can call that itself), got {feed!r:.200}",
            field=FIELD,
        )
    check_shuffle(shuffle)
    if batch_size is not None:
        check_batch_size(data, batch_size := check_integer(batch_size, "batch_size", 1))
    return Fed(data, batch_size, random.getrandbits(31) if shuffle else None), held_by([data], client)


def held_by(data: Iterable[Data | None], client: Callable[[], Any]) -> list[Held]:
    """Start computing the data that the cluster will hold, and return the held resources. Raises InvalidInput."""
    return [each.compute_on(client()) for each in data if isinstance(each, DaskCollections)]


def as_arrays(value: Any, name: str) -> Any:
    """Convert the leaves of a structure to arrays, pandas objects as Keras does. Arrays in files are not read."""
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
            f"`{name}` must be an array, or a dict or list of arrays (see np.asarray), got {value!r:.200}. Pass ragged "
            "and sparse data as a tf.data.Dataset if the strategy supports them",
            field=name,
        )
    if array.ndim == 0:
        raise InvalidInput(
            f"The arrays in `{name}` must have at least one dimension, for the examples, got {value!r}", field=name
        )
    if array.dtype.kind not in "biufc" and array.dtype.name not in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        return _words(array, name)
    keras = sys.modules.get("keras")
    if array.dtype == np.float64 and (keras is None or keras.config.floatx() == "float32"):
        array = array.astype(np.float32)  # as Keras does; also halves the size of the data
    return np.ascontiguousarray(array)


def _words(array: np.ndarray[Any, Any], name: str) -> Any:
    """Return an array of strings as TensorFlow represents it: of dtype object, with elements of type bytes."""
    words = array.astype(object) if array.dtype.kind in "USTO" else np.empty(0, object)
    found = [word for word in words.flat if not isinstance(word, (str, bytes))][:1] if words.size else [array.dtype]
    if found:
        raise InvalidInput(
            f"The arrays in `{name}` must contain only numbers, only booleans or only strings, got "
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
    """Return the number of examples. Raises InvalidInput if the arrays differ in length or are empty."""
    lengths = [len(a) for part in (arrays.x, arrays.y, arrays.sample_weight) for a in _leaves(part)]
    if not lengths or len(set(lengths)) != 1 or not lengths[0]:
        raise InvalidInput(f"x, y and sample_weight must have the same length, at least 1, got {lengths}", field="x")
    return lengths[0]


def split_off(data: Data, fraction: float) -> tuple[Data, Data]:
    """Split off the last ``fraction`` of the examples. Return the training data and the validation data."""
    if not isinstance(data, Arrays):
        raise InvalidInput(
            f"`validation_split` can only be used with arrays, got {fraction} with other data. Pass validation_data",
            field="validation_split",
        )
    count = length_of(data)
    cut = int(np.floor(count * (1 - fraction))) if 0 < fraction < 1 else 0
    if not 0 < cut < count:
        raise InvalidInput(
            "`validation_split` must be between 0 and 1 and leave examples for both training and validation, got "
            f"{fraction} of {count}",
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
