"""Conversion of data to Dask bags, which replace RDDs."""

from __future__ import annotations

from typing import Any

from ...errors import InvalidInput


def as_bag(data: Any) -> Any:
    """Convert data to a bag: an RDD of a ``SparkContext``, a bag, or a Dask dataframe, whose rows become tuples.

    Raises InvalidInput for anything else.
    """
    import dask.bag as db

    bag = getattr(data, "bag", data)
    if isinstance(bag, db.Bag):
        return bag
    if hasattr(bag, "to_delayed") and hasattr(bag, "columns"):
        from .rows import row_tuples

        return row_tuples(bag)
    raise InvalidInput(
        f"The data must be a Dask bag, a Dask dataframe or an RDD of a SparkContext, got {type(data).__module__}."
        f"{type(data).__qualname__}"
    )


def like(data: Any, bag: Any, sc: Any) -> Any:
    """Return the bag, converted to an RDD if ``data`` is an RDD."""
    from .rdd import RDD

    return RDD(bag, data.context) if isinstance(data, RDD) else bag
