"""Tests of unchanged programs in the style of Horovod's examples. docs/horovod.md has one with a changed import."""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import sys
from pathlib import Path
from typing import Any

from ..backend.task.gang import FakeContext, run_gang

EXAMPLES = Path(__file__).parents[3] / "examples"


def _script(ctx: Any, path: Path, arguments: list[str], directory: Path) -> str:
    """Run a script in this task, which has Horovod's module names, and return what it prints."""
    from jupyter_dtf.compat.horovod import install_as_horovod

    assert install_as_horovod()
    os.chdir(directory)
    sys.argv = [str(path), *arguments]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        runpy.run_path(str(path), run_name="__main__")
    return printed.getvalue()


def unchanged(name: str, directory: Path, *arguments: str) -> list[str]:
    def program(ctx: FakeContext) -> str:
        from jupyter_dtf.backend.task.context import set_current

        set_current(ctx)  # type: ignore[arg-type]
        return _script(ctx, EXAMPLES / name, list(arguments), directory)

    return run_gang(2, program)


def accuracy(printed: str) -> float:
    match = re.search(r"([\d.]+)% of the digits", printed)
    assert match is not None, printed
    return float(match[1])


def test_loop_of_its_own(tmp_path: Path) -> None:
    first, second = unchanged("horovod_tensorflow2.py", tmp_path)
    assert first.startswith("Step 0: loss 2.")
    assert "2 tasks: " in first
    assert accuracy(first) > 90
    assert second == ""
    assert (tmp_path / "horovod-checkpoints").is_dir()


def test_keras(tmp_path: Path) -> None:
    first, second = unchanged("horovod_keras.py", tmp_path)
    assert "Epoch 3: finished gradual learning rate warmup to 0.1.\n" in first
    assert accuracy(first) > 85
    assert second == ""
    assert {path.name for path in tmp_path.iterdir()} == {f"horovod-{epoch}.keras" for epoch in range(1, 9)}


def test_elastic(tmp_path: Path) -> None:
    first, _ = unchanged("horovod_elastic.py", tmp_path, "--epochs", "5", "--fail-at", "2")
    assert "5 epochs, 1 resets" in first
    assert accuracy(first) > 85


def test_benchmark(tmp_path: Path) -> None:
    first, _ = unchanged(
        "horovod_benchmark.py", tmp_path, "--fp16-allreduce", "--units", "64", "--num-batches-per-iter", "3"
    )
    assert len(re.findall(r"^Iteration \d: \d+ examples/s per task$", first, re.MULTILINE)) == 5
    assert re.search(r"^Examples/s of 2 tasks: \d+$", first, re.MULTILINE)
