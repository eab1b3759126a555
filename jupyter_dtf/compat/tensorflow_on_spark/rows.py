"""Rows of dataframes: as tuples, which are fed to nodes, or as mappings from column names to values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class Row(dict[str, Any]):
    """A row with values that can be accessed as ``row["column"]`` and ``row.column``."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"`name` must be one of the columns {', '.join(self)}, got {name!r}") from None


def tuples(frame: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a pandas dataframe as tuples of Python values, in the order of the columns."""
    return list(frame.itertuples(index=False, name=None))


def row_tuples(frame: Any, columns: Iterable[str] | None = None) -> Any:
    """Convert a Dask or pandas dataframe to a bag of its rows as tuples, with the same partitions.

    ``columns``: the columns to include, in this order; None: all.
    """
    import dask.bag as db
    from dask import delayed

    chosen = frame if columns is None else frame[list(columns)]
    parts = chosen.to_delayed() if hasattr(chosen, "to_delayed") else [chosen]
    return db.from_delayed([delayed(tuples)(part) for part in parts])


def as_frame(rows: Iterable[Any], columns: list[str]) -> Any:
    """Convert rows (sequences) to a pandas dataframe. Lists and bytes remain unchanged."""
    import pandas as pd

    listed = [list(row) for row in rows]
    made = {}
    for number, column in enumerate(columns):
        made[column] = column_of([row[number] for row in listed])
    return pd.DataFrame(made, columns=columns)


def column_of(values: list[Any]) -> Any:
    """Return a series of booleans, integers or floats if all values have that type, otherwise one of objects.

    pandas would convert strings to its own string type, and integers to floats if some are missing.
    """
    import numpy as np
    import pandas as pd

    for kind, dtype in ((bool, "bool"), (int, "int64"), (float, "float64")):
        if values and all(type(value) is kind for value in values):
            return pd.Series(values, dtype=dtype)
    objects = np.empty(len(values), dtype=object)
    for index, value in enumerate(values):
        objects[index] = value
    return pd.Series(objects, dtype=object)
