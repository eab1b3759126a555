"""Published scaling figures, and their forecasts by ``backend.planning``: both columns of the table in the
documentation.

Pure. Nothing is fitted to a single row: all rows use the same constants, those of ``devices_table`` and ``networks``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_dtf.backend.planning import servers_law, workload
from jupyter_dtf.backend.planning.allreduce_time import overlapped
from jupyter_dtf.backend.planning.devices_table import DEVICES
from jupyter_dtf.backend.planning.forecast import STRAGGLING
from jupyter_dtf.backend.planning.networks import NETWORKS, Fabric, link
from jupyter_dtf.backend.planning.order_statistics import slowest
from jupyter_dtf.backend.planning.workload import Workload
from jupyter_dtf.schema.graph import Layer, LayerGraph

MODELS: dict[str, list[list[Any]]] = json.loads(Path(__file__).with_name("published_models.json").read_text())
TF = "tensorflow.org/performance/benchmarks, 2017"
HOROVOD = "Horovod's benchmarks page"
HOROVOD_PAPER = "arXiv:1802.05799"
GOYAL = "arXiv:1706.02677"


@dataclass(frozen=True)
class Row:
    """One published figure. ``published`` and ``forecast`` are images per second, or an efficiency from 0 to 1."""

    source: str
    what: str
    model: str
    devices: int
    published: float
    forecast: float
    unit: str

    @property
    def off(self) -> float:
        return self.forecast / self.published - 1


Law = Callable[[int], float]


def graph(name: str) -> LayerGraph:
    """Return the layers of a published network, in order."""
    layers = [
        Layer(
            id=f"{number}",
            kind=kind,
            input_shapes=[[1, *shape] for shape in before],
            output_shapes=[[1, *shape] for shape in after],
            parameters=parameters,
            parameter_bytes=4 * parameters,
            gradient_bytes=4 * trainable,
            activation_bytes=activations,
            flops=flops,
        )
        for number, (kind, before, after, parameters, trainable, activations, flops) in enumerate(MODELS[name])
    ]
    return LayerGraph(model=name, layers=layers, edges=[])


def work(name: str, device: str, batch: int, images_per_s: float = 0.0) -> Workload:
    """Return a network's workload according to the device's data sheet. With ``images_per_s``, it is scaled so that one
    device reaches this measured rate.
    """
    found = workload.published(graph(name), DEVICES[device], "fp32")
    return found.scaled(batch / images_per_s / found.compute_s(batch)) if images_per_s else found


def ring(name: str, device: str, batch: int, fabric: Fabric, rate: float = 0.0) -> Law:
    """Return images per second with all-reduce, as a function of the number of devices."""
    done = work(name, device, batch, rate)

    def images(count: int) -> float:
        compute = done.compute_s(batch)
        exchange = overlapped(done.gradient_bytes, done.backward_ends_s(batch), count, fabric, "ring")
        return count * batch / (compute * slowest(count, STRAGGLING) + exchange.exposed_s + done.update_s)

    return images


def servers(name: str, device: str, batch: int, per_byte_s: Law, rate: float = 0.0) -> Law:
    """Return the same with TensorFlow's parameter servers. ``per_byte_s`` returns the seconds per byte on the busiest
    link, for a number of devices.
    """
    done = work(name, device, batch, rate)

    def images(count: int) -> float:
        compute = done.compute_s(batch)
        _, exposed = servers_law.overlapped(done, batch, per_byte_s(count), 0.0) if count > 1 else (0.0, 0.0)
        return count * batch / (compute * slowest(count, STRAGGLING) + exposed + done.update_s)

    return images


# -- the systems that were measured --------------------------------------------------------------------------------

PCIE = link(NETWORKS["pcie3"], "local")
NVLINK = link(NETWORKS["nvlink1"], "local")
NOT_THERE = link(NETWORKS["10gbit"], "tcp")


def uber(transport: str) -> Fabric:
    """128 machines with 4 Pascal GPUs each, connected at 25 Gbit/s."""
    return Fabric(PCIE, link(NETWORKS["25gbit"], transport), 4, "")


BIG_BASIN = Fabric(NVLINK, link(NETWORKS["50gbit"], "tcp"), 8, "")
DGX1 = Fabric(NVLINK, NOT_THERE, 8, "")


def by_cpu(count: int) -> float:
    """Return the seconds per byte if variables are in the memory of a machine that its GPUs reach over four paths, with
    two GPUs on each path.
    """
    return max(1.0, count / 4) / PCIE.bytes_per_s


def ec2(most: int) -> Law:
    """Return the seconds per byte for instances of 8 GPUs, which first sum their own gradients, with at most ``most``
    parameter servers on these instances; 10 Gbit/s.
    """

    def per_byte_s(count: int) -> float:
        instances = max(1, count // 8)
        parts = min(instances, most)
        busiest = max(1 - 1 / parts, (instances - 1) / parts)  # an instance does not send its own part
        return by_cpu(8) + busiest / link(NETWORKS["10gbit"], "tcp").bytes_per_s

    return per_byte_s


P100: dict[str, tuple[int, dict[int, float]]] = {
    "Inception V3": (64, {1: 142, 2: 284, 4: 569, 8: 1131}),
    "ResNet-50": (64, {1: 219, 2: 422, 4: 852, 8: 1734}),
    "ResNet-152": (64, {1: 91.8, 2: 181, 4: 356, 8: 716}),
    "AlexNet": (512, {1: 2987, 2: 5658, 4: 10509, 8: 17822}),
    "VGG-16": (64, {1: 154, 2: 295, 4: 584, 8: 1081}),
}
K80: dict[str, tuple[int, dict[int, float]]] = {
    "Inception V3": (64, {1: 30.5, 2: 57.8, 4: 116, 8: 227}),
    "ResNet-50": (64, {1: 51.9, 2: 99.0, 4: 195, 8: 387}),
    "ResNet-152": (32, {1: 20.0, 2: 38.2, 4: 75.8, 8: 148}),
    "AlexNet": (512, {1: 656, 2: 1209, 4: 2328, 8: 4640}),
    "VGG-16": (32, {1: 35.4, 2: 64.8, 4: 120, 8: 234}),
}
EC2: dict[str, tuple[int, int, dict[int, float]]] = {
    "Inception V3": (64, 6, {1: 29.7, 8: 229, 16: 459, 32: 902, 64: 1783}),
    "ResNet-50": (64, 8, {1: 52.4, 8: 378, 16: 751, 32: 1388, 64: 2744}),
    "ResNet-152": (32, 4, {1: 19.4, 8: 146, 16: 291, 32: 565, 64: 981}),
}


def rows() -> Iterator[Row]:
    """Yield all figures, in the order of the table."""
    for device, figures in (("P100", P100), ("K80", K80)):
        for name, (batch, measured) in figures.items():
            done = work(name, device, batch)
            rate = batch / (done.compute_s(batch) + done.update_s)
            yield Row(TF, f"one {device}", name, 1, measured[1], rate, "images/s")
    for name, (batch, measured) in P100.items():
        law = (
            ring(name, "P100", batch, DGX1, measured[1])
            if name in ("AlexNet", "VGG-16")
            else servers(name, "P100", batch, by_cpu, measured[1])
        )
        for count in (2, 4, 8):
            yield Row(TF, "DGX-1, P100", name, count, measured[count], law(count), "images/s")
    for name, (batch, measured) in K80.items():
        law = servers(name, "K80", batch, by_cpu, measured[1])
        for count in (2, 4, 8):
            yield Row(TF, "one server, K80", name, count, measured[count], law(count), "images/s")
    for name, (batch, most, measured) in EC2.items():
        law = servers(name, "K80", batch, ec2(most), measured[1])
        for count in (8, 16, 32, 64):
            yield Row(TF, "parameter servers, 10 Gbit/s, K80", name, count, measured[count], law(count), "images/s")
    for name in ("Inception V3", "ResNet-101", "VGG-16"):
        law = ring(name, "P100", 64, uber("rdma"))
        published = 0.68 if name == "VGG-16" else 0.9
        yield Row(HOROVOD, "ring, 25 Gbit/s RDMA, P100", name, 512, published, law(512) / law(1) / 512, "efficiency")
    for name in ("Inception V3", "ResNet-101"):
        law = ring(name, "P100", 64, uber("tcp"))
        yield Row(HOROVOD_PAPER, "ring, 25 Gbit/s TCP, P100", name, 128, 0.88, law(128) / law(1) / 128, "efficiency")
    gain = ring("VGG-16", "P100", 64, uber("rdma"))(128) / ring("VGG-16", "P100", 64, uber("tcp"))(128)
    yield Row(HOROVOD_PAPER, "RDMA over TCP, P100", "VGG-16", 128, 1.3, gain, "times")
    law = ring("ResNet-101", "P100", 64, uber("rdma"))
    yield Row(HOROVOD, "ring, 25 Gbit/s, P100", "ResNet-101", 16, 1656.82, law(16), "images/s")
    law = ring("ResNet-50", "P100", 32, BIG_BASIN)
    for count, published in ((256, 0.9), (352, 1 / 1.12)):
        value = law(count) / law(8) / (count / 8)
        yield Row(GOYAL, "50 Gbit/s, P100, against 8", "ResNet-50", count, published, value, "efficiency")


def table() -> str:
    """Return all rows as in docs/forecast.md."""
    lines = ["| published by | what | model | devices | published | forecast | off |", "|---|---|---|---|---|---|---|"]
    for row in rows():
        form = (lambda value: f"{value:.0%}") if row.unit == "efficiency" else (lambda value: f"{value:.4g}")
        values = f"{form(row.published)} | {form(row.forecast)} | {row.off:+.0%}"
        lines.append(f"| {row.source} | {row.what} ({row.unit}) | {row.model} | {row.devices} | {values} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
