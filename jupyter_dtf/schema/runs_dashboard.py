"""Dashboards that plot several runs: the content of ``.dtfplots`` files, which the browser reads and writes."""

from __future__ import annotations

from .base import Struct

VERSION = 1
"""The version of the format that is written."""
SUFFIX = ".dtfplots"


class DashboardRun(Struct):
    """A run, identified by its id. ``name`` is kept in case the run is no longer in the store."""

    id: str
    name: str = ""


class DashboardPlot(Struct):
    """One plot: a metric with all its forms (``loss`` with ``epoch_loss`` and ``val_loss``), or one form alone."""

    metric: str
    smoothing: float = 0.0
    """The weight of previous values in smoothing, from 0 to 0.98."""
    log: bool = False
    """Whether the vertical axis is logarithmic."""


class RunsDashboard(Struct):
    """A dashboard of chosen plots, each of which shows all chosen runs."""

    version: int = VERSION
    title: str = ""
    x: str = "step"  # step, time
    """The x axis of all plots."""
    runs: list[DashboardRun] = []
    plots: list[DashboardPlot] = []
