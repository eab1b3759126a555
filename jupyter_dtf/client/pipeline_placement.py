"""The client's part in a pipeline: the design read that has its placement, before anything starts."""

from __future__ import annotations

import msgspec

from ..schema.design import Design
from ..schema.origin import Source
from ..schema.printable import shown_path
from ..schema.strategy import Pipeline, Strategy

MOST_DESIGN = 1 << 20
"""Characters of a design in a run's record; of a longer one the model is left out, not where its layers are."""


def with_placement(strategy: Strategy) -> tuple[Strategy, Source | None]:
    """A pipeline that names a design, with the design's placement; and the design, as a record has it.

    Raises NotFound, and InvalidInput for the design.
    """
    if isinstance(strategy, Pipeline) and isinstance(strategy.placement, str):
        design = Design.open(strategy.placement)
        kept = Source(name=shown_path(strategy.placement), text=_kept(design))
        return msgspec.structs.replace(strategy, placement=design.placement), kept
    return strategy, None


def _kept(design: Design) -> str:
    """A design as a run's record has it: without options, which may be credentials, and what is the picture's alone."""
    cluster = msgspec.structs.replace(design.cluster, options={})
    plain = msgspec.structs.replace(design, cluster=cluster, calibration=None, drawing={})
    text = plain.text()
    return text if len(text) <= MOST_DESIGN else msgspec.structs.replace(plain, model=None).text()
