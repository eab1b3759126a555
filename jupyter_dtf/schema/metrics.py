"""What the names of metrics say, the same for all who report them or show them. Pure."""

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
"""Metrics of a task's own processes, and their units: no model's. Its host measures what the processes use; what the
task sends to other machines of its run, and how much of each second it spends in exchanges with them, it tells itself.
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
"""Metrics that say what a task's training steps are made of, and their units: seconds of a step, on the average since
they were last told, about once a second. In this order: computing, which is all that is left; waiting for the batch;
exchanging with other tasks; of that, waiting for them; snapshots for checkpoints. All but waiting for others add up to
the step. What a strategy does not measure is left out, and is computing.
"""

PAIR_LOAD = {"bytes_per_step_to_": "bytes", "seconds_per_step_to_": "seconds"}
"""How metrics begin that a task tells of another one on another machine, whose name follows, and their units: what it
sends to it in a step, and how long it takes to be rid of that. A slow link holds up who sends over it.
"""


class HostFigure(NamedTuple):
    """One figure of a machine over time, as a person sees it. In its texts ``#`` is a number from 0."""

    plot: str
    """The plot of each host that it is drawn in, which it shares with others of the same unit: ``CPU``."""
    line: str
    """What its line is called there."""
    unit: str
    """``cores``, ``bytes``, ``bytes_per_second``, ``fraction`` (0 to 1) and ``seconds`` have forms of their own; any
    other is put behind the number as it is: ``W``."""
    about: str
    """A sentence for who asks what it is."""


HOST_FIGURES = {
    "cpu": HostFigure("CPU", "this cluster", "cores", "Cores in use by the host and its tasks"),
    "machine_cpu": HostFigure("CPU", "whole machine", "cores", "Cores in use on the machine, by whomever"),
    "memory_bytes": HostFigure("Memory", "this cluster", "bytes", "Memory of the host and its tasks"),
    "machine_memory_bytes": HostFigure("Memory", "whole machine", "bytes", "Memory in use on the machine, by whomever"),
    "received_bytes_per_second": HostFigure(
        "Network", "received", "bytes_per_second", "What the machine receives over its network"
    ),
    "sent_bytes_per_second": HostFigure("Network", "sent", "bytes_per_second", "What the machine sends over it"),
    "gpu#_utilization": HostFigure(
        "GPU utilization", "GPU #", "fraction", "How busy the host's GPU of that number is, 0 to 1"
    ),
    "gpu#_memory_bytes": HostFigure("GPU memory", "GPU #", "bytes", "Memory in use on it, by whomever"),
    "gpu#_power_watts": HostFigure("GPU power", "GPU #", "W", "What it draws, with its memory"),
    "gpu#_temperature_celsius": HostFigure("GPU temperature", "GPU #", "°C", "How hot its chip is"),
    "gpu#_pcie_received_bytes_per_second": HostFigure(
        "GPU PCIe", "GPU # received", "bytes_per_second", "What it receives over PCIe, from memory and other GPUs"
    ),
    "gpu#_pcie_sent_bytes_per_second": HostFigure(
        "GPU PCIe", "GPU # sent", "bytes_per_second", "What it sends over PCIe"
    ),
    "gpu#_nvlink_received_bytes_per_second": HostFigure(
        "GPU NVLink", "GPU # received", "bytes_per_second", "What it receives over all its NVLinks, from other GPUs"
    ),
    "gpu#_nvlink_sent_bytes_per_second": HostFigure(
        "GPU NVLink", "GPU # sent", "bytes_per_second", "What it sends over them"
    ),
}
"""What is recorded of each host's machine over time (``backend/machine/figures.py``), in the order of their plots."""
SPEED = ("learning_rate", "examples_per_second", "step_seconds")
"""Metrics that say how the training goes rather than how well; shown after the model's own."""

VALIDATION = "val_"
"""``val_loss``: Keras's own name for the loss over the validation data."""
EPOCH = "epoch_"
"""``epoch_loss``: the loss of a whole epoch, at its end, as Keras's ``History`` has it. ``loss`` is a batch's own."""
RUNNING = "running_"
"""``running_auc``: over the epoch so far. It is said of metrics that a batch has no value of by itself."""

_FORMS = (EPOCH, RUNNING, VALIDATION)
HEADLINE = 4
"""So many metrics are in a headline."""


def is_load(metric: str) -> bool:
    """Whether it says what a task takes of its machine, of the network and of time, rather than how its model does."""
    return metric in TASK_LOAD or metric in STEP_PARTS or metric.startswith(tuple(PAIR_LOAD))


def family(metric: str, names: Collection[str]) -> str:
    """The metric that this is a form of: ``loss`` of ``epoch_loss`` and ``val_loss``, whose plot they share.

    ``names``: those of the run. Where none of them is another form, the name is only a name, as ``epoch_time`` is.
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
    """What a person looks at first, and the metric that is its value: the model's own, ``objectives`` and the loss
    before all others.

    Never what a task takes of its machine. While a run goes on, a metric's newest value; when it has ended, the last
    epoch's, as Keras's history has it.
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
    """The same with the values of ``latest``."""
    return {name: latest[metric] for name, metric in headline_of(latest.keys(), has_ended, objectives).items()}


LESS = r"loss|error|entropy|divergence|perplexity|(?:^|_)(?:mse|mae|mape|msle|rmse|nll|wer|cer)(?:_|$)"
"""What the name of a metric has in it of which less is better. A regular expression, as ``MORE``; this one first."""
MORE = r"accuracy|precision|recall|score|similarity|reward|(?:^|_)(?:acc|auc|f1|iou|dice|bleu|r2|map|psnr|ssim)(?:_|$)"
"""The same of those of which more is."""
_LESS, _MORE = re.compile(LESS), re.compile(MORE)


def direction(metric: str) -> int:
    """1 where more of a metric is better, -1 where less is, 0 where its name does not tell."""
    if is_load(metric) or metric in SPEED:
        return 0
    return -1 if _LESS.search(metric) else 1 if _MORE.search(metric) else 0


def host_figure(name: str) -> HostFigure:
    """What a figure of a machine is: ``gpu1_memory_bytes`` is ``GPU 1`` in ``GPU memory``.

    One that this version does not know, as a newer host may tell, has a plot of its own without a unit.
    """
    if known := HOST_FIGURES.get(name):
        return known
    number = re.search("[0-9]+", name)
    known = HOST_FIGURES.get(name.replace(number[0], "#", 1)) if number else None
    if number and known:
        return HostFigure(*(text.replace("#", number[0]) for text in known))
    return HostFigure(name, name, "", "")


def without_form(metric: str) -> str:
    """``loss`` of ``epoch_loss``: what is wrong with one is wrong with the other. ``val_loss`` is another metric."""
    return metric.removeprefix(EPOCH).removeprefix(RUNNING)


def in_words(value: float) -> str:
    """``NaN``, ``infinite`` or ``-infinite``, of a value that is not finite."""
    return "NaN" if math.isnan(value) else "infinite" if value > 0 else "-infinite"
