"""Requests for, and results of, plans with the fewest machines that reach a target. Data only."""

from __future__ import annotations

from ..errors import InvalidInput
from .base import PeerStruct, Struct
from .design import Design
from .forecast import MAX_FIGURE, ForecastPoint, ForecastSettings
from .sizes import number
from .text_table import aligned


class ScaleTarget(Struct):
    """The target of a plan. Exactly one of the first three fields must be set."""

    examples_per_second: float = 0.0
    hours: float = 0.0
    """The hours within which to train on ``examples``."""
    device_hours: float = 0.0
    """A budget: train on ``examples`` as fast as possible within this many device hours."""
    examples: float = 0.0
    """The number of examples over all epochs."""

    def __post_init__(self) -> None:
        given = [self.examples_per_second, self.hours, self.device_hours]
        if (
            any(not 0 <= value <= MAX_FIGURE for value in [*given, self.examples])
            or sum(value > 0 for value in given) != 1
        ):
            raise InvalidInput(
                "Exactly one of `examples_per_second`, `hours` and `device_hours` must be a number > 0, and the others "
                f"0, got {', '.join(map(str, given))}",
                field="examples_per_second",
            )
        if not self.examples_per_second and not self.examples > 0:
            raise InvalidInput(
                f"`examples` must be a number > 0 with hours or device_hours, got {self.examples}",
                field="examples",
            )


class PlanRequest(Struct):
    """A design with a model, the strategies that may be used, and the target."""

    design: Design
    target: ScaleTarget
    settings: list[ForecastSettings] = []
    """The strategies to consider. Empty: all-reduce, synchronous parameter servers, and pipelines, with default
    settings."""

    def __post_init__(self) -> None:
        if len(self.settings) > 16:
            raise InvalidInput(f"`settings` must have at most 16 items, got {len(self.settings)}", field="settings")


class PlanOption(PeerStruct):
    """The best plan with one strategy."""

    title: str
    settings: ForecastSettings
    reached: bool
    point: ForecastPoint
    """The point with the fewest tasks that reach the target, or else the point closest to it."""
    hours: float = 0.0
    """The hours that training on the target's examples takes; 0 if the target has no examples."""
    device_hours: float = 0.0
    problem: str = ""


class ScalePlan(PeerStruct):
    """The plan with the fewest machines that reach a target, and plans with other strategies for comparison."""

    target: ScaleTarget
    reached: bool
    best: PlanOption
    others: list[PlanOption] = []
    design: Design | None = None
    """A design with the cluster, the model, and the placement of a pipeline. Once saved, it opens in the designer."""
    why: str = ""

    def __repr__(self) -> str:
        rows = [["", "strategy", "tasks", "machines", "examples/s", "efficiency", "hours", "device-hours"]]
        for option in [self.best, *self.others]:
            point = option.point
            rows.append(
                [
                    "yes" if option.reached else "no",
                    option.title,
                    str(point.tasks),
                    str(point.machines),
                    number(point.examples_per_second),
                    f"{point.efficiency:.0%}",
                    number(option.hours) if option.hours else "",
                    number(option.device_hours) if option.device_hours else "",
                ]
            )
        return "\n".join([self.why, aligned(rows)])
