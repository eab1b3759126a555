"""How far a design or a run would scale, what reaches a target, and what a run made of it."""

from __future__ import annotations

from ..schema.efficiency import EfficiencyReport
from ..schema.forecast import Forecast, ForecastRequest, ForecastSettings
from ..schema.hardware import Hardware
from ..schema.scale_plan import PlanRequest, ScalePlan
from .base import Handler
from .designs import DesignHandler
from .operation import operation


class ForecastHandler(DesignHandler):
    @operation("Examples per second of a design over numbers of tasks, once for each of the settings")
    async def post(self, *, body: ForecastRequest) -> list[Forecast]:
        return await self.while_asked(self.services.forecast_design(body))


class PlanHandler(DesignHandler):
    @operation("The fewest machines on which a design's model reaches a target, and with which strategy")
    async def post(self, *, body: PlanRequest) -> ScalePlan:
        return await self.while_asked(self.services.plan_design(body))


class HardwareHandler(Handler):
    @operation("The devices and networks that forecasts know by name")
    async def get(self) -> Hardware:
        return self.services.hardware()


class RunForecastHandler(Handler):
    max_body_bytes = 1 << 17

    @operation("How a run would scale, by what its own steps took", errors=(404, 409))
    async def post(self, run_id: str, *, body: ForecastSettings) -> Forecast:
        return await self.services.forecast_run(run_id, body)


class EfficiencyHandler(Handler):
    @operation("What a run did, part by part, beside what would be forecast for it", errors=(404,))
    async def get(self, run_id: str) -> EfficiencyReport:
        return await self.services.efficiency_of(run_id)
