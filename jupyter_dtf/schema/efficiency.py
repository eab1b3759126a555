"""The comparison of a run with its forecast. Inert."""

from __future__ import annotations

from .base import PeerStruct
from .sizes import seconds_
from .text_table import aligned


class PartGap(PeerStruct):
    """One part of a run's step compared with its forecast."""

    part: str
    """``input``, ``compute``, ``exchange``, ``update``, ``idle``, ``step``, which is all of these, or ``checkpoint``,
    which is not part of it.
    """
    forecast_s: float
    measured_s: float | None = None
    """None if the run has not measured it."""
    text: str = ""
    """A comment, such as ``the exchange is not hidden``, or why it was not measured."""


class EfficiencyReport(PeerStruct):
    """The comparison of a run with its forecast."""

    run: str
    title: str = ""
    tasks: int = 0
    """The tasks that computed."""
    steps: int = 0
    """The steps that were counted; 0: too few to be meaningful."""
    examples_per_second: float = 0.0
    forecast_examples_per_second: float = 0.0
    efficiency: float | None = None
    """The fraction of the speed of as many tasks that never wait for each other; None if unknown."""
    gaps: list[PartGap] = []
    slowest: str = ""
    """The task that the others wait for, if it is always the same."""
    findings: list[str] = []
    """Sentences, the most costly first."""

    def __repr__(self) -> str:
        rows = [["part", "forecast", "measured", ""]]
        rows += [
            [gap.part, seconds_(gap.forecast_s), "" if gap.measured_s is None else seconds_(gap.measured_s), gap.text]
            for gap in self.gaps
        ]
        return "\n".join([f"Efficiency of {self.run}: {self.title}", aligned(rows), *self.findings])
