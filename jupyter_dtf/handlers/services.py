"""What the handlers call: made when first needed, because NumPy and the clusters' side are dear to import."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from .._version import __version__
from ..backend.templates import Templates
from ..errors import InvalidInput, Unavailable
from ..schema.api import ClusterRequest, KindInfo, Preview, StatusInfo
from ..schema.design import VERSION, Design, DesignProblem, DesignReport, RunSettings, version_of
from ..schema.graph import LayerGraph
from ..schema.hosts import HostDesign
from ..schema.placement import Calibration, Placement
from ..schema.text import InvalidText

if TYPE_CHECKING:
    from ..backend.fleet import Fleet
    from ..backend.metrics.hub import Hub
    from ..backend.metrics.store import Store

_log = logging.getLogger(__name__)

PLACE = "jupyter_dtf.backend.place_design"
DESCRIBE = "jupyter_dtf.backend.task.describe_file"
PROFILE = "jupyter_dtf.notebook.profile_design"
"""Modules that work in processes of their own."""
_TENSORFLOW = ("tensorflow", "tensorflow-cpu", "tf-nightly", "tf-nightly-cpu", "tensorflow-rocm", "intel-tensorflow")


class Services:
    """The fleet with its hub, the templates, and the server's policy on what may be started."""

    def __init__(
        self,
        *,
        allowed_kinds: list[str] | None = None,
        kind_defaults: Mapping[str, Mapping[str, Any]] | None = None,
        keep_runs: int = 0,
        keep_days: float = 0.0,
    ) -> None:
        """``allowed_kinds``: None for all that are installed. ``keep_runs``, ``keep_days``: 0 for all, for ever."""
        self.templates = Templates()
        self._allowed_kinds = allowed_kinds
        self._kind_defaults = {kind: dict(options) for kind, options in (kind_defaults or {}).items()}
        self._keep_runs = keep_runs
        self._keep_days = keep_days
        self._notes: list[str] = []
        self._starting: asyncio.Task[Fleet] | None = None

    async def fleet(self) -> Fleet:
        """The fleet, started."""
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(self._start())
        starting = self._starting
        try:
            return await asyncio.shield(starting)  # a request that is given up must not take the fleet along
        except BaseException:
            if starting.done() and self._starting is starting:
                self._starting = None  # the next request tries again
            raise

    async def hub(self) -> Hub:
        """The hub of the started fleet."""
        return (await self.fleet()).hub

    async def stop(self) -> None:
        """Leave all clusters as they are and let go of them."""
        if self._starting is None:
            return
        starting, self._starting = self._starting, None
        fleet = (await asyncio.gather(starting, return_exceptions=True))[0]
        if not isinstance(fleet, BaseException):
            await fleet.stop()
            _let_go(fleet)

    async def status(self) -> StatusInfo:
        """Versions, and what a person should know of this server."""
        dask, tensorflow = await asyncio.to_thread(lambda: (_version_of("distributed"), _version_of(*_TENSORFLOW)))
        return StatusInfo(version=__version__, dask=dask, tensorflow=tensorflow, notes=list(self._notes))

    async def kinds(self) -> list[KindInfo]:
        """The kinds that may be started here, with this server's defaults in their forms."""
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
        """The request with this server's defaults filled in. Raises InvalidInput for a kind that is not to be had."""
        kinds = [info.kind for info in await self.kinds()]
        if request.kind not in kinds:
            raise InvalidInput(
                f"The kinds of cluster here are {', '.join(kinds) or 'none'}. Received: {request.kind!r:.100}",
                field="kind",
            )
        defaults = self._kind_defaults.get(request.kind, {})
        if request.hosts:  # the drawing says how many
            defaults = {option: value for option, value in defaults.items() if option != "hosts"}
        options = {**defaults, **request.options}
        return msgspec.structs.replace(request, options=options)

    async def preview(self, request: ClusterRequest) -> Preview:
        """What a request would make here. Raises InvalidInput as ``complete``."""
        request = await self.complete(request)
        return await asyncio.to_thread((await self.fleet()).preview, request)

    async def check_design(self, data: bytes) -> DesignReport:
        """What a design's text would make here, and what is wrong with it, be it no design at all."""
        from ..backend import designs

        try:
            design = await asyncio.to_thread(Design.decode, data)
        except InvalidText as error:
            problem = DesignProblem(field=error.field, message=str(error), line=error.line, column=error.column)
            return DesignReport(problems=[problem])
        promised, problems = await self._promised(design)
        report = await asyncio.to_thread(designs.check, design, promised)
        report.problems += problems
        if await asyncio.to_thread(version_of, data.decode()) != VERSION:
            report.text = await asyncio.to_thread(design.text)
        return report

    async def place_design(self, design: Design) -> Placement:
        """An automatic placement of a design's model. Raises InvalidInput."""
        from ..backend import errands
        from ..backend.place_design import PlaceRequest

        promised, _ = await self._promised(design)
        request = PlaceRequest(design=design, promised=promised)
        return await errands.send(PLACE, request, Placement)

    async def script_of(self, design: Design) -> str:
        """A program in plain TensorFlow for a design. Raises InvalidInput for what is wrong with it."""
        from ..backend import designs
        from ..backend.exported import script

        def work() -> str:
            designs.request_of(design)  # which raises what is wrong with the cluster
            return script(design)

        return await asyncio.to_thread(work)

    async def describe_model(self, path: Path) -> LayerGraph:
        """The layers of a model in a file. Raises InvalidInput."""
        from ..backend import errands

        return await errands.send(DESCRIBE, str(path), LayerGraph)

    async def profile_model(self, path: Path, cluster: str, run: RunSettings) -> Calibration:
        """What a model in a file takes on a running cluster. Raises InvalidInput, NotFound, RunFailed."""
        from ..backend import errands

        (await self.fleet()).cluster(cluster)
        wanted = {
            "path": str(path),
            "cluster": cluster,
            "batch_size": run.batch_size // max(1, run.replicas),
            "microbatches": run.microbatches,
        }
        return await errands.send(PROFILE, wanted, Calibration)

    async def _promised(self, design: Design) -> tuple[list[HostDesign], list[DesignProblem]]:
        """The hosts that a design's kind of cluster has by itself, and what is wrong with the kind and its options."""
        from ..backend import designs

        try:
            request = designs.request_of(design)
        except InvalidInput:  # which the check of the design says
            return [], []
        try:
            preview = await self.preview(request)
        except InvalidInput as error:
            return [], [DesignProblem(field=f"cluster.{error.field}", message=str(error))]
        problems = [
            DesignProblem(field=f"cluster.{problem.field}", message=problem.message)
            for problem in preview.problems
            if problem.level == "error" and problem.field != "name"  # its own cluster may be running
        ]
        return preview.hosts, problems

    async def _start(self) -> Fleet:
        fleet = await asyncio.to_thread(self._make)
        with contextlib.ExitStack() as undo:
            undo.callback(_let_go, fleet)
            try:
                await fleet.start()
            except OSError as error:  # no watches or no descriptors are left: the machine's limits, not a mistake
                raise Unavailable(f"Clusters cannot be watched on this machine: {error}") from error
            undo.pop_all()
        return fleet

    def _make(self) -> Fleet:
        from ..backend.fleet import Fleet
        from ..backend.metrics.hub import Hub

        return Fleet(Hub(self._open_store()))

    def _open_store(self) -> Store | None:
        from ..backend.metrics.store import Store

        try:
            store = Store()
            if self._keep_runs or self._keep_days:
                days = self._keep_days * 86_400 if self._keep_days else None
                store.prune(max_age_s=days, max_runs=self._keep_runs or None)
        except Unavailable as error:  # live runs can be seen without it
            _log.warning("Past runs cannot be shown: %s", error)
            self._notes = [f"Past runs cannot be shown: {error}"]
            return None
        if store.moved_aside is not None:
            self._notes = [f"The store of past runs was damaged. It is kept as {store.moved_aside}"]
        return store


def _let_go(fleet: Fleet) -> None:
    if fleet.hub.store is not None:
        fleet.hub.store.close()


def _version_of(*distributions: str) -> str:
    """The version of the first of these that is installed; empty where none is."""
    for name in distributions:
        with contextlib.suppress(metadata.PackageNotFoundError):
            return metadata.version(name)
    return ""
