"""The time that a forecast for 1 to 512 tasks and a model with 10,000 layers takes, for each strategy."""

from __future__ import annotations

import time
from typing import Any

from jupyter_dtf.backend.planning.forecast import forecast
from jupyter_dtf.schema.forecast import ForecastSettings
from jupyter_dtf.schema.graph import Edge, Layer, LayerGraph

from .table import Row

LAYERS = 10_000
ROUNDS = 3
SETTINGS: dict[str, dict[str, Any]] = {
    "all-reduce": {"device": "A100", "network": "25gbit", "devices_per_machine": 8},
    "parameter servers": {"strategy": "ps", "servers": 8},
    "pipeline of two stages": {"strategy": "pipeline"},
    "pipeline, one stage per task": {"strategy": "pipeline", "replicas": 1},
}


def graph() -> LayerGraph:
    """Return a chain of dense layers."""
    size = 400_000
    layers = [
        Layer(
            id=f"dense_{number}",
            kind="Dense",
            input_shapes=[[1, 316]],
            output_shapes=[[1, 316]],
            parameters=size // 4,
            parameter_bytes=size,
            gradient_bytes=size,
            activation_bytes=1264,
            flops=200_000,
        )
        for number in range(LAYERS)
    ]
    edges = [Edge(source=f"dense_{number}", target=f"dense_{number + 1}", bytes=1264) for number in range(LAYERS - 1)]
    return LayerGraph(model="chain", layers=layers, edges=edges)


def measure() -> list[Row]:
    model = graph()
    rows = []
    for name, settings in SETTINGS.items():
        took = []
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            forecast(model, ForecastSettings(**settings))
            took.append(time.perf_counter() - begin)
        best = min(took)
        rows.append(Row(f"forecast of 10,000 layers, 1 to 512 tasks, {name}", f"{best:.2f} s", "", best, "<=", 2.0))
    return rows
