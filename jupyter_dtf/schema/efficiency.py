"""What a run did, laid over what was forecast for it. Inert."""

from __future__ import annotations

from .base import PeerStruct
from .sizes import seconds_
from .text_table import aligned


class PartGap(PeerStruct):
    """One part of a run's step beside what was forecast for it."""

    part: str
    """``input``, ``compute``, ``exchange``, ``update``, ``idle``, ``step``, which is all of these, or ``checkpoint``,
    which is beside it.
    """
    forecast_s: float
    measured_s: float | None = None
    """None where the run has not measured it."""
    text: str = ""
    """What it says: ``the exchange is not hidden``; or why it was not measured."""


class EfficiencyReport(PeerStruct):
    """What a run did, laid over what was forecast for it."""

    run: str
    title: str = ""
    tasks: int = 0
    """That computed."""
    steps: int = 0
    """That were counted; 0: too few to say anything."""
    examples_per_second: float = 0.0
    forecast_examples_per_second: float = 0.0
    efficiency: float | None = None
    """Of what as many tasks would do that did not wait for each other; None where the run does not tell."""
    gaps: list[PartGap] = []
    slowest: str = ""
    """The task for which the others wait, if it is always the same."""
    findings: list[str] = []
    """Sentences, what costs most first."""

    def __repr__(self) -> str:
        rows = [["part", "forecast", "measured", ""]]
        rows += [
            [gap.part, seconds_(gap.forecast_s), "" if gap.measured_s is None else seconds_(gap.measured_s), gap.text]
            for gap in self.gaps
        ]
        return "\n".join([f"Efficiency of {self.run}: {self.title}", aligned(rows), *self.findings])
