"""The client's part in a pipeline: the placement read, before anything starts."""

from __future__ import annotations

import msgspec

from ..schema.design import Design
from ..schema.strategy import Pipeline, Strategy


def with_placement(strategy: Strategy) -> Strategy:
    """A pipeline that names a design, with the design's placement. Raises NotFound, and InvalidInput for the design."""
    if isinstance(strategy, Pipeline) and isinstance(strategy.placement, str):
        return msgspec.structs.replace(strategy, placement=Design.open(strategy.placement).placement)
    return strategy
