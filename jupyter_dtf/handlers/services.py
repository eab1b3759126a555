"""The services behind the handlers. They are created on first use, because NumPy and the cluster code load slowly."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from .._version import __version__
from ..backend.machine.versions import TENSORFLOW, installed_version
from ..backend.viewer.templates import Templates
from ..errors import InvalidInput, Unavailable
from ..schema import protocol, subprocess_job
from ..schema.api import KindInfo, Preview, ResumeRequest, StatusInfo
from ..schema.cluster_request import ClusterRequest
from ..schema.design import VERSION, Design, DesignProblem, DesignReport, RunSettings, version_of
from ..schema.efficiency import EfficiencyReport
from ..schema.forecast import Forecast, ForecastRequest, ForecastSettings
from ..schema.graph import LayerGraph
from ..schema.hardware import Hardware
from ..schema.hosts import HostDesign
from ..schema.placement import Calibration, Placement
from ..schema.run import RunInfo
from ..schema.scale_plan import PlanRequest, ScalePlan
from ..schema.text import InvalidText

if TYPE_CHECKING:
    from ..backend.records.hub import Hub
    from ..backend.records.store import Store
    from ..backend.viewer.fleet import Fleet

DELETED_KEPT_S = 7 * 86_400.0
"""The time, in seconds, for which a deleted run can be restored. A server that starts later removes it permanently."""

_log = logging.getLogger(__name__)


class Services:
    """The fleet with its hub, the templates, and the server's policy on the kinds of cluster that may be started."""

    def __init__(
        self,
        *,
        allowed_kinds: list[str] | None = None,
        kind_defaults: Mapping[str, Mapping[str, Any]] | None = None,
        keep_runs: int = 0,
        keep_days: float = 0.0,
    ) -> None:
        """Create the services. ``allowed_kinds``: None for all kinds. ``keep_runs``, ``keep_days``: 0 for no limit."""
        self.templates = Templates()
        self.copying = asyncio.Lock()
        """Held while an unused name is chosen and the file is saved under it."""
        self._allowed_kinds = allowed_kinds
        self._kind_defaults = {kind: dict(options) for kind, options in (kind_defaults or {}).items()}
        self._keep_runs = keep_runs
        self._keep_days = keep_days
        self._notes: list[str] = []
        self._starting: asyncio.Task[Fleet] | None = None
        self._sending: set[asyncio.Task[RunInfo]] = set()

    async def fleet(self) -> Fleet:
        """Return the fleet, starting it if needed."""
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(self._start())
        starting = self._starting
        try:
            return await asyncio.shield(starting)  # cancelling a request must not cancel the start of the fleet
        except BaseException:
            if starting.done() and self._starting is starting:
                self._starting = None  # the next request tries again
            raise

    async def hub(self) -> Hub:
        """Return the hub of the fleet, starting the fleet if needed."""
        return (await self.fleet()).hub

    async def stop(self) -> None:
        """Disconnect from all clusters, which keep running."""
        if self._starting is None:
            return
        starting, self._starting = self._starting, None
        await asyncio.gather(*self._sending, return_exceptions=True)  # a run would fail without its program
        fleet = (await asyncio.gather(starting, return_exceptions=True))[0]
        if not isinstance(fleet, BaseException):
            await fleet.stop()
            _let_go(fleet)

    async def status(self) -> StatusInfo:
        """Return versions and notes about this server."""
        dask, tensorflow = await asyncio.to_thread(
            lambda: (installed_version("distributed"), installed_version(*TENSORFLOW))
        )
        return StatusInfo(
            version=__version__,
            protocol=protocol.PROTOCOL,
            oldest=protocol.OLDEST,
            dask=dask,
            tensorflow=tensorflow,
            notes=list(self._notes),
        )

    async def kinds(self) -> list[KindInfo]:
        """Return the kinds of cluster that can be started here, with this server's default values."""
        return self._allowed((await self.fleet()).kinds())

    def _allowed(self, installed: list[KindInfo]) -> list[KindInfo]:
        kinds = []
        for info in installed:
            if self._allowed_kinds is not None and info.kind not in self._allowed_kinds:
                continue
            defaults = self._kind_defaults.get(info.kind, {})
            fields = [
                msgspec.structs.replace(field, default=defaults.get(field.name, field.default)) for field in info.fields
            ]
            kinds.append(msgspec.structs.replace(info, fields=fields))
        return kinds

    async def complete(self, request: ClusterRequest) -> ClusterRequest:
        """Fill in this server's default values in a request. Raises InvalidInput if the kind is not available."""
        kinds = {info.kind: info for info in await self.kinds()}
        if request.kind not in kinds:
            raise InvalidInput(
                f"`kind` must be one of {', '.join(kinds) or 'none'}, got {request.kind!r:.100}",
                field="kind",
            )
        defaults = self._kind_defaults.get(request.kind, {})
        if request.hosts:  # the design determines the number of hosts
            counts = {field.name for field in kinds[request.kind].fields if field.counts_hosts}
            defaults = {option: value for option, value in defaults.items() if option not in counts}
        options = {**defaults, **request.options}
        return msgspec.structs.replace(request, options=options)

    async def preview(self, request: ClusterRequest) -> Preview:
        """Return the cluster that a request would create here. Raises InvalidInput, as ``complete`` does."""
        request = await self.complete(request)
        return await asyncio.to_thread((await self.fleet()).preview, request)

    async def check_design(self, data: bytes) -> DesignReport:
        """Report the cluster that a design would create here, and the problems of the design or its text."""
        from ..backend.planning import check_design

        try:
            design = await asyncio.to_thread(Design.decode, data)
        except InvalidText as error:
            problem = DesignProblem(field=error.field, message=str(error), line=error.line, column=error.column)
            return DesignReport(problems=[problem])
        expected_hosts, problems = await self._expected_hosts(design)
        report = await asyncio.to_thread(check_design.check, design, expected_hosts)
        report.problems += problems
        if await asyncio.to_thread(version_of, data.decode()) != VERSION:
            report.text = await asyncio.to_thread(design.text)
        return report

    async def place_design(self, design: Design) -> Placement:
        """Place a design's model automatically. Raises InvalidInput."""
        from ..backend.machine import subprocess_runner

        expected_hosts, _ = await self._expected_hosts(design)
        request = subprocess_job.PlaceRequest(design=design, expected_hosts=expected_hosts)
        return await subprocess_runner.run(subprocess_job.PLACE, request, Placement)

    async def script_of(self, design: Design) -> str:
        """Return a program in plain TensorFlow for a design. Raises InvalidInput if the design is invalid."""
        from ..backend.planning import check_design
        from ..backend.planning.export_script import script

        def work() -> str:
            check_design.request_of(design)  # raises if the cluster is invalid
            return script(design)

        return await asyncio.to_thread(work)

    async def forecast_design(self, wanted: ForecastRequest) -> list[Forecast]:
        """Forecast how a design would scale, once for each of the settings. Raises InvalidInput."""
        from ..backend.planning import design_forecast

        expected_hosts, _ = await self._expected_hosts(wanted.design)
        return await asyncio.to_thread(design_forecast.forecasts, wanted.design, wanted.settings, expected_hosts)

    async def plan_design(self, wanted: PlanRequest) -> ScalePlan:
        """Find the fewest machines on which a design's model reaches a target. Raises InvalidInput."""
        from ..backend.planning import scale_plan

        expected_hosts, _ = await self._expected_hosts(wanted.design)
        return await asyncio.to_thread(scale_plan.plan, wanted.design, wanted.target, wanted.settings, expected_hosts)

    async def forecast_run(self, run_id: str, settings: ForecastSettings) -> Forecast:
        """Forecast how a run would scale, from its measured steps. Raises NotFound, and Conflict for too few steps."""
        from ..backend.records.run_forecast import run_forecast

        hub = await self.hub()
        return await asyncio.to_thread(lambda: run_forecast(hub.record(run_id), settings))

    async def efficiency_of(self, run_id: str) -> EfficiencyReport:
        """Compare a run with its forecast. Raises NotFound."""
        from ..backend.records.run_forecast import efficiency

        hub = await self.hub()
        return await asyncio.to_thread(lambda: efficiency(hub.record(run_id)))

    def hardware(self) -> Hardware:
        """Return the devices and networks that forecasts know by name."""
        from ..backend.planning import devices_table, networks

        return Hardware(devices=list(devices_table.DEVICES.values()), networks=list(networks.NETWORKS.values()))

    async def describe_model(self, path: Path) -> LayerGraph:
        """Describe the layers of a model in a file. Raises InvalidInput."""
        from ..backend.machine import subprocess_runner

        return await subprocess_runner.run(subprocess_job.DESCRIBE, str(path), LayerGraph)

    async def profile_model(self, path: Path, cluster: str, run: RunSettings) -> Calibration:
        """Measure a model in a file on a running cluster. Raises InvalidInput, NotFound, RunFailed."""
        from ..backend.machine import subprocess_runner

        (await self.fleet()).cluster(cluster)
        wanted = subprocess_job.MeasureRequest(
            path=str(path),
            cluster=cluster,
            batch_size=run.batch_size // max(1, run.replicas),
            microbatches=run.microbatches,
        )
        return await subprocess_runner.run(subprocess_job.PROFILE, wanted, Calibration)

    async def resume_run(self, run_id: str, wanted: ResumeRequest) -> RunInfo:
        """Start a run that continues another one. Returns once the run exists; its program may be sent afterwards.

        Raises the same errors as ``Fleet.resume_run``.
        """
        fleet = await self.fleet()
        opened: asyncio.Future[RunInfo] = asyncio.get_running_loop().create_future()
        sending = asyncio.create_task(fleet.resume_run(run_id, wanted.cluster, wanted.step, opened.set_result))
        self._sending.add(sending)
        sending.add_done_callback(self._sending.discard)
        await asyncio.wait({opened, sending}, return_when=asyncio.FIRST_COMPLETED)
        return opened.result() if opened.done() else sending.result()

    async def _expected_hosts(self, design: Design) -> tuple[list[HostDesign], list[DesignProblem]]:
        """Return the hosts that a design's kind of cluster provides, and the problems of the kind and its options."""
        from ..backend.planning import check_design

        try:
            request = check_design.request_of(design)
        except InvalidInput:  # reported by the check of the design
            return [], []
        try:
            preview = await self.preview(request)
        except InvalidInput as error:
            return [], [DesignProblem(field=f"cluster.{error.field}", message=str(error))]
        problems = [
            DesignProblem(field=f"cluster.{problem.field}", message=problem.message)
            for problem in preview.problems
            if problem.level == "error" and problem.field != "name"  # the design's own cluster may be running
        ]
        return preview.hosts, problems

    async def _start(self) -> Fleet:
        fleet = await asyncio.to_thread(self._make)
        with contextlib.ExitStack() as undo:
            undo.callback(_let_go, fleet)
            try:
                await fleet.start()
            except OSError as error:  # no watches or descriptors are left: a limit of the machine, not a bug
                raise Unavailable(f"Clusters cannot be watched on this machine: {error}") from error
            undo.pop_all()
        return fleet

    def _make(self) -> Fleet:
        from ..backend.records.hub import Hub
        from ..backend.viewer.fleet import Fleet

        return Fleet(Hub(self._open_store()))

    def _open_store(self) -> Store | None:
        from ..backend.machine import paths
        from ..backend.records import submission_files
        from ..backend.records.output_files import remove_output
        from ..backend.records.store import Store

        try:
            store = Store()
            if store.refusal:  # the newer version of jupyter_dtf prunes it
                self._notes = [store.refusal]
            else:
                days = self._keep_days * 86_400 if self._keep_days else None
                runs = self._keep_runs or None
                for run_id in store.prune(max_age_s=days, max_runs=runs, deleted_s=DELETED_KEPT_S):
                    submission_files.remove(paths.runs_dir() / run_id)
                    remove_output(paths.runs_dir() / run_id)
        except Unavailable as error:  # active runs can be shown without the store
            _log.warning("Past runs cannot be shown: %s", error)
            self._notes = [f"Past runs cannot be shown: {error}"]
            return None
        if store.moved_aside is not None:
            self._notes = [f"The store of past runs was damaged. It was moved to {store.moved_aside}"]
        return store


def _let_go(fleet: Fleet) -> None:
    if fleet.hub.store is not None:
        fleet.hub.store.close()
