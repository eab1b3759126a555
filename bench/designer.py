"""A design with 10,000 layers in a real browser: how long until it can be read and answers, how smoothly it moves."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

from .table import Row


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as directory:
        result = Path(directory) / "designer.json"
        command = ["npx", "playwright", "test", "-c", "bench/browser", "designer"]
        environment = {**os.environ, "DTF_BENCH_RESULT": str(result)}
        root = Path(__file__).parent.parent
        subprocess.run(command, cwd=root, env=environment, check=True, stdout=subprocess.DEVNULL)
        seen = json.loads(result.read_text())
    opened = seen["opened_ms"] / 1000
    placed = f"a choice shows after {seen['placed_ms']:.0f} ms"
    return [
        Row("10,000 layers: open and answering", f"{opened:.2f} s", f"{seen['shown']} nodes drawn", opened, "<=", 3),
        Row(
            "10,000 layers: moving the picture, frames/s", f"{seen['panned_fps']:.0f}", "", seen["panned_fps"], ">=", 30
        ),
        Row(
            "10,000 layers: dragging a layer, frames/s",
            f"{seen['dragged_fps']:.0f}",
            placed,
            seen["dragged_fps"],
            ">=",
            30,
        ),
    ]
