"""Runs measurements in a real browser: the Playwright tests in ``bench/browser``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any


def seen_in_browser(name: str) -> Any:
    """Run ``bench/browser/NAME.spec.ts``, and return its results. Raises RuntimeError with its output if it fails."""
    with tempfile.TemporaryDirectory() as directory:
        result = Path(directory) / "result.json"
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # the server must run with this Python
        done = subprocess.run(
            ["npx", "playwright", "test", "-c", "bench/browser", name],
            cwd=Path(__file__).parent.parent,
            env={**os.environ, "PATH": path, "DTF_BENCH_RESULT": str(result)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"bench/browser/{name}.spec.ts has failed:\n{done.stdout}{done.stderr}")
        return json.loads(result.read_text())
