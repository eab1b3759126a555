"""The client side of a pipeline: reads its placement from a design before anything starts."""

from __future__ import annotations

import msgspec

from ..schema.design import Design
from ..schema.origin import Source
from ..schema.printable import shown_path
from ..schema.strategy import Pipeline, Strategy

MOST_DESIGN = 1 << 20
"""The maximum length of a design in a run's record, in characters. A longer one is recorded without its layers."""


def with_placement(strategy: Strategy) -> tuple[Strategy, Source | None]:
    """Replace the design that a pipeline names, if any, with the placement in that design.

    Return the strategy, and the design in the form in which it is recorded; None if the strategy names no design.

    Raises NotFound if there is no such design, and InvalidInput if it is invalid.
    """
    if isinstance(strategy, Pipeline) and isinstance(strategy.placement, str):
        design = Design.open(strategy.placement)
        kept = Source(name=shown_path(strategy.placement), text=_kept(design))
        return msgspec.structs.replace(strategy, placement=design.placement), kept
    return strategy, None


def _kept(design: Design) -> str:
    """Return a design as it is recorded: without options, which may be credentials, and without layout information."""
    cluster = msgspec.structs.replace(design.cluster, options={})
    plain = msgspec.structs.replace(design, cluster=cluster, calibration=None, drawing={})
    text = plain.text()
    return text if len(text) <= MOST_DESIGN else msgspec.structs.replace(plain, model=None).text()
