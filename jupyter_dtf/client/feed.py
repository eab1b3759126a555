"""``Feed``: Dask collections as data, with how they are to be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InvalidInput

SHUFFLE_BUFFER = 10_000
_COMPUTE = ("once", "each_epoch")


@dataclass
class Feed:
    """Dask collections in the place of ``x``: ``cluster.fit(model, dtf.Feed(x, y, compute="each_epoch"))``.

    ``compute``: ``"once"``, and the partitions stay in the memory of Dask's workers, which put on disk what is too
    much; or ``"each_epoch"``, anew in every pass, for partitions that are drawn or changed at random. ``retries``: how
    often Dask computes a partition again that fails. ``shuffle_buffer``: with ``shuffle=True`` partitions come in
    another order each epoch, and so many examples at least are shuffled among each other. Raises InvalidInput.
    """

    x: Any
    y: Any = None
    sample_weight: Any = None
    compute: str = "once"
    retries: int = 0
    shuffle_buffer: int = SHUFFLE_BUFFER

    def __post_init__(self) -> None:
        if self.compute not in _COMPUTE:
            raise InvalidInput(f"compute must be one of {', '.join(_COMPUTE)}, got {self.compute!r}", field="compute")
        for name in ("retries", "shuffle_buffer"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
                raise InvalidInput(f"{name} must be a whole number, 0 or more, got {value!r}", field=name)
