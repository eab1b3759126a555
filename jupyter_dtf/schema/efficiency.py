"""Structs for the comparison of a run with its forecast."""

from __future__ import annotations

from .base import PeerStruct
from .sizes import seconds_
from .text_table import aligned


class PartGap(PeerStruct):
    """One part of a run's step, compared with its forecast."""

    part: str
    """``input``, ``compute``, ``exchange``, ``update`` or ``idle``; ``step``, which is the total of these; or
    ``checkpoint``, which is not included in the total.
    """
    forecast_s: float
    measured_s: float | None = None
    """None if the run did not measure this part."""
    text: str = ""
    """A comment, such as ``the exchange is not hidden``, or the reason why the part was not measured."""


class EfficiencyReport(PeerStruct):
    """The comparison of a run with its forecast."""

    run: str
    title: str = ""
    tasks: int = 0
    """The number of tasks that computed."""
    steps: int = 0
    """The number of steps that were compared; 0: too few for a meaningful comparison."""
    examples_per_second: float = 0.0
    forecast_examples_per_second: float = 0.0
    efficiency: float | None = None
    """The measured speed, as a fraction of the speed that the tasks would have if they never waited for each other;
    None if unknown."""
    gaps: list[PartGap] = []
    slowest: str = ""
    """The task for which the other tasks wait, if it is always the same one; otherwise empty."""
    findings: list[str] = []
    """Sentences about lost time, the most costly first."""

    def __repr__(self) -> str:
        rows = [["part", "forecast", "measured", ""]]
        rows += [
            [gap.part, seconds_(gap.forecast_s), "" if gap.measured_s is None else seconds_(gap.measured_s), gap.text]
            for gap in self.gaps
        ]
        return "\n".join([f"Efficiency of {self.run}: {self.title}", aligned(rows), *self.findings])
