"""Rows of dataframes: as tuples for a feed, and with their columns' names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class Row(dict[str, Any]):
    """A row: ``row["column"]`` and ``row.column``."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"A row has the columns {', '.join(self)}. Received: {name!r}") from None


def tuples(frame: Any) -> list[tuple[Any, ...]]:
    """The rows of a pandas dataframe, as Python's values; a Row's order is that of the columns."""
    return list(frame.itertuples(index=False, name=None))


def row_tuples(frame: Any, columns: Iterable[str] | None = None) -> Any:
    """A bag of the rows of a Dask or pandas dataframe as tuples, a partition for each of the dataframe's."""
    import dask.bag as db
    from dask import delayed

    chosen = frame if columns is None else frame[list(columns)]
    parts = chosen.to_delayed() if hasattr(chosen, "to_delayed") else [chosen]
    return db.from_delayed([delayed(tuples)(part) for part in parts])


def as_frame(rows: Iterable[Any], columns: list[str]) -> Any:
    """A pandas dataframe of rows that are sequences. Lists and bytes stay what they are."""
    import pandas as pd

    listed = [list(row) for row in rows]
    made = {}
    for number, column in enumerate(columns):
        made[column] = column_of([row[number] for row in listed])
    return pd.DataFrame(made, columns=columns)


def column_of(values: list[Any]) -> Any:
    """A series with the type of its values where they are numbers or truth values, of objects otherwise.

    pandas would make one type of strings of its own of a column of texts, and numbers of one with missing whole ones.
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
