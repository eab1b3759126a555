"""The meaning of metric names, for reporting and displaying metrics. Pure functions."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

TASK_LOAD = {
    "cpu": "cores",
    "memory_bytes": "bytes",
    "network_bytes_per_second": "bytes_per_second",
    "network_seconds": "seconds",
}
"""Metrics of a task's processes rather than of its model, and their units. The host measures the resources that the
processes use. The task reports the bytes that it sends to other machines of its run, and the fraction of each second
that it spends in exchanges.
"""

STEP_COMPUTE = "step_compute_seconds"
STEP_INPUT = "step_input_seconds"
STEP_EXCHANGE = "step_exchange_seconds"
STEP_WAIT = "step_wait_seconds"
STEP_CHECKPOINT = "step_checkpoint_seconds"
STEP_PARTS = {
    STEP_COMPUTE: "seconds",
    STEP_INPUT: "seconds",
    STEP_EXCHANGE: "seconds",
    STEP_WAIT: "seconds",
    STEP_CHECKPOINT: "seconds",
}
"""Metrics of the parts of a task's training steps, and their units: seconds per step, averaged over the steps since the
last report. Reports are about one second apart. In this order: computing, which is the remainder; waiting for the
batch; exchanging with other tasks; the part of the exchange spent waiting for other tasks; snapshots for checkpoints.
All parts except the time spent waiting for other tasks add up to the time of the step. Parts that a strategy does not
measure are omitted, and count as computing.
"""

PAIR_LOAD = {"bytes_per_step_to_": "bytes", "seconds_per_step_to_": "seconds"}
"""The prefixes of a task's metrics about another task on another machine, with their units. The name of the other task
follows the prefix. The metrics are the number of bytes that are sent to that task in a step, and the seconds that
sending them takes. A slow link delays the sender.
"""


class HostFigure(NamedTuple):
    """How one metric of a machine is shown over time. ``#`` in its strings stands for an index from 0."""

    plot: str
    """The plot of each host in which the metric is drawn, such as ``CPU``, which it shares with other metrics of the
    same unit."""
    line: str
    """The name of the metric's line in the plot."""
    unit: str
    """``cores``, ``bytes``, ``bytes_per_second``, ``fraction`` (0 to 1) and ``seconds`` are formatted; any other unit,
    such as ``W``, is shown unchanged after the number."""
    about: str
    """A phrase that explains the metric."""


HOST_FIGURES = {
    "cpu": HostFigure("CPU", "this cluster", "cores", "Cores in use by the host and its tasks"),
    "machine_cpu": HostFigure("CPU", "whole machine", "cores", "Cores in use on the machine by all programs"),
    "memory_bytes": HostFigure("Memory", "this cluster", "bytes", "Memory of the host and its tasks"),
    "machine_memory_bytes": HostFigure(
        "Memory", "whole machine", "bytes", "Memory in use on the machine by all programs"
    ),
    "received_bytes_per_second": HostFigure(
        "Network", "received", "bytes_per_second", "Bytes that the machine receives over its network"
    ),
    "sent_bytes_per_second": HostFigure(
        "Network", "sent", "bytes_per_second", "Bytes that the machine sends over its network"
    ),
    "gpu#_utilization": HostFigure(
        "GPU utilization", "GPU #", "fraction", "Utilization of the host's GPU with this number, 0 to 1"
    ),
    "gpu#_memory_bytes": HostFigure("GPU memory", "GPU #", "bytes", "Memory in use on the GPU by all programs"),
    "gpu#_power_watts": HostFigure("GPU power", "GPU #", "W", "Power drawn by the GPU, including its memory"),
    "gpu#_temperature_celsius": HostFigure("GPU temperature", "GPU #", "°C", "Temperature of the GPU's chip"),
    "gpu#_pcie_received_bytes_per_second": HostFigure(
        "GPU PCIe",
        "GPU # received",
        "bytes_per_second",
        "Bytes that the GPU receives over PCIe, from memory and other GPUs",
    ),
    "gpu#_pcie_sent_bytes_per_second": HostFigure(
        "GPU PCIe", "GPU # sent", "bytes_per_second", "Bytes that the GPU sends over PCIe"
    ),
    "gpu#_nvlink_received_bytes_per_second": HostFigure(
        "GPU NVLink",
        "GPU # received",
        "bytes_per_second",
        "Bytes that the GPU receives over all its NVLinks, from other GPUs",
    ),
    "gpu#_nvlink_sent_bytes_per_second": HostFigure(
        "GPU NVLink", "GPU # sent", "bytes_per_second", "Bytes that the GPU sends over all its NVLinks"
    ),
}
"""The metrics recorded for each host's machine (``backend/machine/figures.py``), in the order of their plots."""
SPEED = ("learning_rate", "examples_per_second", "step_seconds")
"""Metrics of the speed of training rather than the quality of the model. They are shown after the model's own
metrics."""

VALIDATION = "val_"
"""The prefix of ``val_loss``, Keras's own name for the loss over the validation data."""
EPOCH = "epoch_"
"""The prefix of ``epoch_loss``, the loss of a whole epoch as in Keras's ``History``; ``loss`` is that of one batch."""
RUNNING = "running_"
"""The prefix of ``running_auc``, the value over the epoch so far, for metrics that have no value for a single batch."""

_FORMS = (EPOCH, RUNNING, VALIDATION)
HEADLINE = 4
"""The number of metrics in a headline."""


def is_load(metric: str) -> bool:
    """Return whether a metric measures a task's use of its machine, the network and time, rather than its model."""
    return metric in TASK_LOAD or metric in STEP_PARTS or metric.startswith(tuple(PAIR_LOAD))


def family(metric: str, names: Collection[str]) -> str:
    """Return the base metric, with which a metric shares a plot: ``loss`` for ``epoch_loss`` and ``val_loss``.

    ``names`` are the metrics of the run. A prefix such as ``epoch_`` only counts as one if the run has another form of
    the metric, so ``epoch_time`` alone is its own base metric.
    """
    if metric.startswith(VALIDATION) and len(metric) > len(VALIDATION):
        return metric.removeprefix(VALIDATION)
    for form in (EPOCH, RUNNING):
        base = metric.removeprefix(form)
        if base not in ("", metric) and any(
            other != metric and other in names for other in (base, *(prefix + base for prefix in _FORMS))
        ):
            return base
    return metric


def headline_of(names: Collection[str], has_ended: bool = False, objectives: Collection[str] = ()) -> dict[str, str]:
    """Return the metrics to show first, as a dict from names to metrics.

    A key is the name to show, such as ``loss``; its value is the metric that has the number, such as ``epoch_loss``.
    They are metrics of the model, beginning with ``objectives`` and the loss; metrics of a task's resources are never
    included. While a run is active, the newest values are used; after its end, those of the last epoch, as in Keras's
    history.
    """
    order = (EPOCH, "", RUNNING) if has_ended else ("", RUNNING, EPOCH)
    found: dict[str, str] = {}
    for name in names:
        base = family(name, names)
        if base in SPEED or name in SPEED or is_load(base) or is_load(name):
            continue
        if name.startswith(VALIDATION):
            found[name] = name
        elif base not in found:
            found[base] = next((form + base for form in order if form + base in names), name)
    first = sorted(found, key=lambda name: (name not in ("loss", "val_loss"), name == "val_loss"))
    wanted = {name: name for name in objectives if name in names}
    order_of = [*wanted, *(name for name in first if name not in wanted)]
    return {name: wanted.get(name) or found[name] for name in order_of[:HEADLINE]}


def headline(
    latest: Mapping[str, float], has_ended: bool = False, objectives: Collection[str] = ()
) -> dict[str, float]:
    """Return the metrics of ``headline_of`` with their values in ``latest``."""
    return {name: latest[metric] for name, metric in headline_of(latest.keys(), has_ended, objectives).items()}


LESS = (
    r"loss|error|entropy|divergence|perplexity|hinge"
    r"|(?:^|_)(?:mse|mae|mape|msle|rmse|nll|wer|cer|logcosh|poisson)(?:_|$)"
)
"""A regular expression for the names of metrics whose smaller values are better. Takes precedence over ``MORE``."""
MORE = (
    r"accuracy|precision|recall|score|similarity|correlation|sensitivity|specificity|reward"
    r"|(?:^|_)(?:acc|auc|f1|fbeta|iou|io_u|dice|bleu|r2|map|psnr|ssim)(?:_|$)"
)
"""A regular expression for the names of metrics whose larger values are better."""
_LESS, _MORE = re.compile(LESS), re.compile(MORE)


def direction(metric: str) -> int:
    """Return 1 if larger values of a metric are better, -1 if smaller ones are, 0 if its name indicates neither."""
    if is_load(metric) or metric in SPEED:
        return 0
    return -1 if _LESS.search(metric) else 1 if _MORE.search(metric) else 0


def host_figure(name: str) -> HostFigure:
    """Return how a metric of a machine is shown: ``gpu1_memory_bytes`` as line ``GPU 1`` of plot ``GPU memory``.

    An unknown metric, from a newer host, gets a separate plot without a unit.
    """
    if known := HOST_FIGURES.get(name):
        return known
    number = re.search("[0-9]+", name)
    known = HOST_FIGURES.get(name.replace(number[0], "#", 1)) if number else None
    if number and known:
        return HostFigure(*(text.replace("#", number[0]) for text in known))
    return HostFigure(name, name, "", "")


def without_form(metric: str) -> str:
    """Return the name without ``epoch_`` or ``running_``: ``loss`` for ``epoch_loss``, because a problem affects both.

    ``val_loss`` is a different metric, and is returned unchanged.
    """
    return metric.removeprefix(EPOCH).removeprefix(RUNNING)


def in_words(value: float) -> str:
    """Describe a non-finite value as ``NaN``, ``infinite`` or ``-infinite``."""
    return "NaN" if math.isnan(value) else "infinite" if value > 0 else "-infinite"
