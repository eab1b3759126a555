"""``Feed``: Dask collections as training data, with options for reading them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import InvalidInput
from ..schema.arguments import check_integer

SHUFFLE_BUFFER = 10_000
_COMPUTE = ("once", "each_epoch")


@dataclass
class Feed:
    """Dask collections to pass as ``x``, with options for reading them.

    Attributes:
        x: A Dask array, dataframe, bag, delayed object or future, or a list or dict of them.
        y: The targets, partitioned like ``x``.
        sample_weight: A weight for each example, partitioned like ``x``.
        compute: ``"once"``: the partitions stay in the memory of the Dask workers, which spill them to disk when memory
            runs out. ``"each_epoch"``: they are computed again in every pass, for data that is generated or augmented
            randomly.
        retries: How many times Dask retries a partition that could not be computed.
        shuffle_buffer: With ``shuffle=True``, the partitions are read in a new order in each epoch, and at least this
            many examples are shuffled together.

    Raises:
        InvalidInput: If an option is invalid.

    Example:
        >>> cluster.fit(model, dtf.Feed(x, y, compute="each_epoch"), epochs=3)
    """

    x: Any
    y: Any = None
    sample_weight: Any = None
    compute: str = "once"
    retries: int = 0
    shuffle_buffer: int = SHUFFLE_BUFFER

    def __post_init__(self) -> None:
        if self.compute not in _COMPUTE:
            raise InvalidInput(f"`compute` must be one of {', '.join(_COMPUTE)}, got {self.compute!r}", field="compute")
        for name in ("retries", "shuffle_buffer"):
            check_integer(getattr(self, name), name, 0)
