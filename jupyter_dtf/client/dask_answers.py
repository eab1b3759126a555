"""``cluster.predict`` for Dask collections: the predictions are a lazy collection with the same partitions."""

from __future__ import annotations

import hashlib
import math
from typing import Any

from ..backend.host.dask_partition import Like, answered, as_frame, as_items
from ..backend.task.model import keras_io
from ..errors import InvalidInput
from ..schema import payload
from .feed import Feed
from .fit_arguments import count_or_none
from .keras_settings import keras_settings


def is_collection(x: Any) -> bool:
    """Return whether ``x`` is a Dask collection, or a dict, list or tuple that contains one. Does not import Dask."""
    return any(hasattr(type(leaf), "__dask_graph__") for leaf in _leaves(x))


def examples_of(x: Any) -> Any:
    """Return the ``x`` of a ``dtf.Feed``. Return other data unchanged.

    Raises InvalidInput if the feed has ``retries``, because these must be set when the caller computes the lazy result.
    """
    if not isinstance(x, Feed):
        return x
    if x.retries:
        raise InvalidInput(
            f"`retries` of a Feed must be 0 in cluster.predict, whose result is lazy, got {x.retries}. Call "
            f"`result.compute(retries={x.retries})` instead",
            field="x",
        )
    return x.x


def predict(model: Any, x: Any, batch_size: int | None, steps: int | None) -> Any:
    """Return the predictions for ``x``: a Dask array or bag, or for dataframes, a dataframe with the same index.

    For a model with several outputs, the result consists of arrays in the structure of the outputs, of a bag of tuples,
    or of columns named after the outputs. Only the shapes of the result are computed here. Raises InvalidInput.
    """
    import keras

    batch_size = count_or_none("batch_size", batch_size)
    if steps is not None:
        raise InvalidInput(
            f"`steps` must be None for a Dask collection, got {steps!r}. Take a part of the collection instead",
            field="steps",
        )
    if not isinstance(model, keras.Model) or type(model).predict_step is not keras.Model.predict_step:
        raise InvalidInput(
            "`model` must be a keras.Model that does not override predict_step, because the shapes and dtypes of the "
            f"predictions must be known before they are computed, got {model!r:.200}",
            field="model",
        )
    kind, parts, lengths, example = _divided(model, x)
    outputs = model(example)
    flat = keras.tree.flatten(outputs)
    like: Like = [(tuple(-1 if n is None else n for n in output.shape[1:]), str(output.dtype)) for output in flat]
    lazy = _answered_parts(model, parts, batch_size, like)
    if kind == "array":
        arrays = [_as_array([part[number] for part in lazy], lengths, *like[number]) for number in range(len(like))]
        return keras.tree.pack_sequence_as(outputs, arrays)
    if kind == "bag":
        from dask import bag, delayed

        return bag.from_delayed([delayed(as_items)(part) for part in lazy])  # type: ignore[no-untyped-call]
    return _as_frame(model, lazy, parts, x, like)


def _answered_parts(model: Any, parts: list[Any], batch_size: int | None, like: Like) -> list[Any]:
    from dask import delayed

    packed = keras_io.pack(model, compiled=False)
    data = payload.pack((packed, keras_settings()))
    digest = hashlib.sha256(data).hexdigest()
    sent = delayed((digest, data), name=f"model-{digest}", traverse=False)  # shared by all partitions
    settled: Like = [(tuple(max(n, 0) for n in shape), dtype) for shape, dtype in like]
    return [delayed(answered, pure=False)(sent, number, part, batch_size, settled) for number, part in enumerate(parts)]


def _as_array(parts: list[Any], lengths: list[float], shape: tuple[int, ...], dtype: str) -> Any:
    from dask import array

    inner = tuple(math.nan if n < 0 else n for n in shape)
    arrays = [
        array.from_delayed(part, (length, *inner), dtype)  # type: ignore[no-untyped-call]
        for part, length in zip(parts, lengths, strict=True)
    ]
    return array.concatenate(arrays, allow_unknown_chunksizes=True)  # type: ignore[no-untyped-call]


def _as_frame(model: Any, lazy: list[Any], parts: list[Any], x: Any, like: Like) -> Any:
    import numpy as np
    import pandas as pd
    from dask import dataframe, delayed

    columns: list[str] = []
    types: list[str] = []
    for name, (shape, dtype) in zip(_output_names(model, len(like)), like, strict=True):
        if any(n < 0 for n in shape):
            raise InvalidInput(
                f"The columns of the predictions must be known, so every output must have a fixed shape, got {shape} "
                f"for {name or 'the output'} (-1: unknown). Predict from a Dask array instead",
                field="model",
            )
        width = math.prod(shape)
        columns += [name] if width == 1 and name else [f"{name}_{n}" if name else str(n) for n in range(width)]
        types += [dtype] * width
    meta = pd.DataFrame({column: np.empty(0, dtype) for column, dtype in zip(columns, types, strict=True)})
    first = next(iter(_leaves(x)))
    meta.index = first._meta.index[:0]
    frames = [delayed(as_frame)(outputs, part, columns) for outputs, part in zip(lazy, parts, strict=True)]
    return dataframe.from_delayed(frames, meta=meta, divisions=first.divisions, verify_meta=False)


def _output_names(model: Any, count: int) -> list[str]:
    if count == 1:
        return [""]
    names = getattr(model, "output_names", None) or []
    return list(names) if len(names) == count else [f"output_{number}" for number in range(count)]


def _divided(model: Any, x: Any) -> tuple[str, list[Any], list[float], Any]:
    """Return the kind of a collection, its partitions, their numbers of examples, and symbolic Keras inputs.

    The partitions are delayed objects. Unknown numbers of examples are NaN. Raises InvalidInput.
    """
    import keras
    from dask import delayed

    leaves = _leaves(x)
    kinds = {_kind(leaf) for leaf in leaves}
    if len(kinds) != 1 or "" in kinds:
        raise InvalidInput(
            "`x` must be a Dask array, dataframe or bag, or a dict, list or tuple of Dask arrays or dataframes, got "
            f"{x!r:.200}",
            field="x",
        )
    (kind,) = kinds
    if kind == "bag" and leaves[0] is not x:
        raise InvalidInput(f"`x` must be a single Dask bag of examples, got {x!r:.200}", field="x")
    if kind == "array":
        if any(not leaf.ndim for leaf in leaves):
            raise InvalidInput(f"`x` must have at least one dimension, for the examples, got {x!r:.200}", field="x")
        chunks = leaves[0].chunks[0]
        whole = [leaf.rechunk(dict.fromkeys(range(1, leaf.ndim), -1)) if leaf.ndim > 1 else leaf for leaf in leaves]
        known = not any(math.isnan(n) for leaf in leaves for n in leaf.chunks[0])
        whole = [leaf if leaf.chunks[0] == chunks or not known else leaf.rechunk({0: chunks}) for leaf in whole]
        divided = [list(leaf.to_delayed().ravel()) for leaf in whole]
        lengths = list(chunks)
        examples = [(leaf.shape[1:], _floats(leaf.dtype.name)) for leaf in leaves]
    elif kind == "bag":
        inputs = getattr(model, "inputs", None)
        if not inputs or len(inputs) != 1:
            raise InvalidInput(
                "`model` must have one input of known shape for a Dask bag, whose examples may have any shape, got "
                f"{model!r:.200}. Convert the bag to a Dask array instead",
                field="model",
            )
        divided = [list(x.to_delayed())]
        examples = [(tuple(inputs[0].shape[1:]), str(inputs[0].dtype))]
        lengths = [math.nan] * len(divided[0])
    else:
        divided = [list(leaf.to_delayed()) for leaf in leaves]
        lengths = [math.nan] * len(divided[0])
        examples = [_of_frame(leaf._meta) for leaf in leaves]
    if len({len(parts) for parts in divided}) != 1:
        raise InvalidInput(
            f"The collections in x must have equal numbers of partitions, got {[len(parts) for parts in divided]}",
            field="x",
        )
    parts = [delayed(_replaced(x, iter(of_number))) for of_number in zip(*divided, strict=True)]
    tensors = [keras.KerasTensor((None, *shape), dtype) for shape, dtype in examples]
    return kind, parts, lengths, _replaced(x, iter(tensors))


def _of_frame(meta: Any) -> tuple[tuple[int, ...], str]:
    array = meta.to_numpy()
    return ((array.shape[1],) if array.ndim > 1 else (1,)), _floats(array.dtype.name)


def _floats(dtype: str) -> str:
    """Return the dtype to which Keras converts arrays of this dtype."""
    import keras

    return str(keras.config.floatx()) if dtype == "float64" else dtype


def _kind(value: Any) -> str:
    from dask.delayed import Delayed

    if not hasattr(type(value), "__dask_graph__") or isinstance(value, Delayed):
        return ""  # a delayed object has every attribute
    if hasattr(value, "chunks") and hasattr(value, "dtype"):
        return "array"
    if hasattr(value, "divisions"):
        return "dataframe"
    return "bag" if hasattr(value, "npartitions") else ""


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]


def _replaced(value: Any, leaves: Any) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(item, leaves) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(_replaced(item, leaves) for item in value)
    return next(leaves)
