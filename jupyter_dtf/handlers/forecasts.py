"""Routes for forecasts of designs and runs, plans for targets, and comparisons of runs with forecasts."""

from __future__ import annotations

from ..schema.efficiency import EfficiencyReport
from ..schema.forecast import Forecast, ForecastRequest, ForecastSettings
from ..schema.hardware import Hardware
from ..schema.scale_plan import PlanRequest, ScalePlan
from .base import Handler
from .designs import DesignHandler
from .operation import operation


class ForecastHandler(DesignHandler):
    @operation("Forecast a design's examples per second for each number of tasks, once for each of the settings")
    async def post(self, *, body: ForecastRequest) -> list[Forecast]:
        return await self.while_asked(self.services.forecast_design(body))


class PlanHandler(DesignHandler):
    @operation("Find the strategy with which a design's model reaches a target on the fewest machines")
    async def post(self, *, body: PlanRequest) -> ScalePlan:
        return await self.while_asked(self.services.plan_design(body))


class HardwareHandler(Handler):
    @operation("List the devices and networks that forecasts know by name")
    async def get(self) -> Hardware:
        return self.services.hardware()


class RunForecastHandler(Handler):
    max_body_bytes = 1 << 17

    @operation("Forecast how a run would scale, from the measured times of its steps", errors=(404, 409))
    async def post(self, run_id: str, *, body: ForecastSettings) -> Forecast:
        return await self.services.forecast_run(run_id, body)


class EfficiencyHandler(Handler):
    @operation("Compare the parts of a run's steps with its forecast", errors=(404,))
    async def get(self, run_id: str) -> EfficiencyReport:
        return await self.services.efficiency_of(run_id)
