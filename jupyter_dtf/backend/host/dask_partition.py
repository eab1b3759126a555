"""The Dask task that runs a model on one partition. Runs wherever Dask computes the partition."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import InvalidInput
from .answerer import answers, check_examples

Like = list[tuple[tuple[int, ...], str]]
"""For each output, the shape for one example and the name of the dtype."""


def answered(model: tuple[str, bytes], number: int, x: Any, batch_size: int | None, like: Like) -> list[Any]:
    """Return the outputs of a model for a partition: arrays with one row per example.

    Args:
        model: The model, as passed to `answerer.answers`.
        number: The number of the partition.
        x: Arrays, pandas objects, or a list of examples; or a dict or tuple of arrays or pandas objects.
        batch_size: The batch size to predict with, as passed to `answerer.answers`.
        like: The shapes and dtypes to return if the partition is empty.

    Raises:
        InvalidInput: If the parts of ``x`` differ in length, or an output does not have one row per example.
    """
    arrays = _arrays(x)
    counts = {len(leaf) for leaf in _leaves(arrays)}
    if len(counts) != 1:
        raise InvalidInput(
            f"All parts of x must have the same length in partition {number}, got {sorted(counts)}", field="x"
        )
    (count,) = counts
    if not count:
        return [np.empty((0, *shape), dtype) for shape, dtype in like]
    outputs = answers(model, number, arrays, batch_size)
    check_examples(count, outputs, number)
    return outputs


def as_frame(outputs: list[Any], x: Any, columns: list[str]) -> Any:
    """Return outputs as a pandas DataFrame with the index of the partition ``x``."""
    import pandas as pd

    flat = [output.reshape(len(output), -1) for output in outputs]
    named = iter(columns)
    index = (next(iter(x.values())) if isinstance(x, dict) else x).index
    return pd.DataFrame({next(named): part[:, number] for part in flat for number in range(part.shape[1])}, index=index)


def as_items(outputs: list[Any]) -> list[Any]:
    """Return outputs as items of a bag: for each example, an array, or a tuple with one array per output."""
    return list(outputs[0]) if len(outputs) == 1 else list(zip(*outputs, strict=True))


def _arrays(x: Any) -> Any:
    """Convert a partition to arrays that Keras accepts. As in ``fit``, Keras casts 64-bit floats."""
    if isinstance(x, dict):
        return {key: _arrays(value) for key, value in x.items()}
    if isinstance(x, tuple):
        return tuple(_arrays(value) for value in x)
    if type(x).__module__.partition(".")[0] == "pandas":
        array = x.to_numpy()
        return array[:, None] if array.ndim == 1 else array  # a Series is a column, as in Keras
    if isinstance(x, list) or not hasattr(x, "__array__"):
        x = list(x)
        return np.stack([np.asarray(item) for item in x]) if x else np.empty(0)
    return np.asarray(x)


def _leaves(x: Any) -> list[Any]:
    if isinstance(x, dict):
        return [leaf for value in x.values() for leaf in _leaves(value)]
    if isinstance(x, tuple):
        return [leaf for value in x for leaf in _leaves(value)]
    return [x]
