"""Dask dataframes of rows, with columns that may contain any value, including lists and bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...errors import InvalidInput
from . import rows

OBJECT = "object"


def of_bag(bag: Any, columns: list[str], compute: Callable[[Any], Any]) -> Any:
    """Convert a bag of rows to a Dask dataframe with the types of the first row. Raises InvalidInput if it is empty."""
    from dask import delayed

    parts = bag.to_delayed()
    first = None
    for part in parts:
        if found := list(compute(part)):
            first = found[0]
            break
    if first is None:
        raise InvalidInput("A dataframe needs at least one row, because its types are those of the first row")
    if len(first) != len(columns):
        raise InvalidInput(f"A row must have a value for each column, got {len(first)} values, columns {columns}")
    meta = rows.as_frame([first], columns).iloc[:0]
    typed = delayed(_typed)
    return of_parts([typed(part, columns, dict(meta.dtypes)) for part in parts], meta)


def of_parts(parts: list[Any], meta: Any) -> Any:
    """Convert delayed pandas dataframes to a Dask dataframe. Values in object columns remain unchanged."""
    import dask
    import dask.dataframe as dd

    # Otherwise, Dask converts all objects in new dataframes to strings, including lists and bytes.
    with dask.config.set({"dataframe.convert-string": False}):
        return dd.from_delayed(parts, meta=meta, verify_meta=True)


def as_dask(frame: Any) -> Any:
    """Convert a pandas dataframe to a Dask dataframe with one partition. A Dask dataframe is returned unchanged.

    Raises InvalidInput for anything else.
    """
    import dask
    import dask.dataframe as dd
    import pandas as pd

    if isinstance(frame, pd.DataFrame):
        with dask.config.set({"dataframe.convert-string": False}):
            return dd.from_pandas(frame, npartitions=1)
    if isinstance(frame, dd.DataFrame):
        return frame
    raise InvalidInput(
        f"A dataframe must be a Dask or pandas dataframe, got {type(frame).__module__}.{type(frame).__name__}"
    )


def typed_frame(values: Any, columns: list[str], dtypes: Mapping[str, Any]) -> Any:
    """Convert rows to a pandas dataframe with the given types.

    Raises InvalidInput, which names the column, if a value has another type.
    """
    frame = rows.as_frame(values, columns)
    for column, dtype in dtypes.items():
        if frame[column].dtype != dtype:
            if str(dtype) != OBJECT and len(frame):
                raise InvalidInput(
                    f"A column must have the type of its first value, {dtype}, in all rows, got {column!r} with "
                    f"{frame[column].iloc[0]!r:.100} among its values"
                )
            frame[column] = frame[column].astype(dtype)
    return frame


def _typed(part: Any, columns: list[str], dtypes: Mapping[str, Any]) -> Any:
    return typed_frame(list(part), columns, dtypes)
