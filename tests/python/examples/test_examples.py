"""The examples do what they say, in a real kernel or interpreter and on a real cluster."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from ..patience import left_s
from ..script import run

EXAMPLES = Path(__file__).parents[3] / "examples"


def outputs(cell: Any, kind: str) -> list[Any]:
    return [output for output in cell.outputs if output.output_type == kind]


@pytest.mark.slow
def test_notebook(tmp_path: Path) -> None:
    notebook = nbformat.read(EXAMPLES / "digits.ipynb", as_version=4)
    NotebookClient(
        notebook, timeout=int(left_s()), kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    cells = {cell.source.splitlines()[0]: cell for cell in notebook.cells if cell.cell_type == "code"}

    (shown,) = outputs(
        cells["run = cluster.fit(model, x, y, batch_size=64, epochs=30, validation_data=(x_test, y_test))"],
        "display_data",
    )
    assert set(shown.data) == {"application/vnd.jupyter-dtf.run+json", "image/svg+xml", "text/plain"}
    assert "succeeded" in shown.data["text/plain"]
    assert "succeeded" in shown.data["image/svg+xml"]  # the final picture, not the first

    (evaluated,) = outputs(cells["loss, accuracy = model.evaluate(x_test, y_test, verbose=0)"], "stream")
    match = re.match(r"([\d.]+)% of 360 digits", evaluated.text)
    assert match is not None
    assert float(match[1]) > 95

    (printed,) = outputs(cells["%%dtf run"], "display_data")
    assert "This is worker:1, 2 of 2. It sees 1437 digits." in printed.data["text/plain"]


def test_notebook_is_kept_without_outputs() -> None:
    notebook = nbformat.read(EXAMPLES / "digits.ipynb", as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code
    assert all(not cell.outputs and cell.execution_count is None for cell in code)


Ran = subprocess.CompletedProcess[str]


@pytest.fixture
def run_example(tmp_path: Path) -> Callable[[str], Ran]:
    return lambda name: run(EXAMPLES / name, tmp_path)


def interpret(path: Path, directory: Path) -> Ran:
    """Run a script in a separate interpreter, as a user would."""
    command = [sys.executable, str(path)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=left_s(), cwd=directory, check=False)
    assert found.returncode == 0, found.stderr
    return found


@pytest.mark.slow
@pytest.mark.extended
def test_between_graph(run_example: Callable[[str], Ran]) -> None:
    script = run_example("between_graph.py")
    match = re.search(r"not seen: ([\d.]+)% right", script.stdout)
    assert match is not None
    assert float(match[1]) > 90
    assert re.search(r"both workers together: (59\d|600)$", script.stdout, re.MULTILINE)
    assert len(re.findall(r"model\.ckpt-\d+\.index", script.stdout)) >= 3  # about every 200 steps


@pytest.mark.slow
@pytest.mark.extended
def test_in_graph_replicas(run_example: Callable[[str], Ran]) -> None:
    script = run_example("in_graph.py")
    match = re.search(r"not seen: ([\d.]+)% right\n.*at most (\S+) apart", script.stdout)
    assert match is not None
    assert float(match[1]) > 90
    assert float(match[2]) < 1e-5


@pytest.mark.slow
@pytest.mark.extended
def test_pipeline(run_example: Callable[[str], Ran]) -> None:
    script = run_example("pipeline.py")
    assert len(re.findall(r"^\d .*True$", script.stdout, re.MULTILINE)) == 5
    match = re.search(r"([\d.]+)% of the digits", script.stdout)
    assert match is not None
    assert float(match[1]) > 85


@pytest.mark.slow
@pytest.mark.extended
def test_ensemble(run_example: Callable[[str], Ran]) -> None:
    script = run_example("ensemble.py")
    alone = re.findall(r"^alone, on /job:worker/replica:0/task:(\d)/\S+: ([\d.]+)% right$", script.stdout, re.MULTILINE)
    together = re.search(r"^together: ([\d.]+)% right$", script.stdout, re.MULTILINE)
    assert [task for task, _ in alone] == ["0", "1", "2"]
    assert together is not None
    assert float(together[1]) > sum(float(right) for _, right in alone) / 3


@pytest.mark.slow
def test_script(tmp_path: Path) -> None:
    script = interpret(EXAMPLES / "digits.py", tmp_path)
    assert "Epoch 10/10 - accuracy:" in script.stderr
    match = re.search(r"not seen: ([\d.]+)% right", script.stdout)
    assert match is not None
    assert float(match[1]) > 90


@pytest.mark.slow
@pytest.mark.extended
def test_parameter_server(run_example: Callable[[str], Ran], tmp_path: Path) -> None:
    script = run_example("parameter_server.py")
    lines = re.findall(r"(\d) workers: (\d+) updates, ([\d.]+) stale on average, accuracy ([\d.]+)", script.stdout)
    assert [(int(workers), int(updates)) for workers, updates, *_ in lines] == [(n, n * 135) for n in (1, 2, 3)]
    one, two, three = (float(accuracy) for *_, accuracy in lines)
    assert two > one + 0.05
    assert three > two + 0.02
    staleness = [float(stale) for *_, stale, _ in lines]
    assert staleness[0] == 0 < staleness[2]
    assert "accuracy on unseen digits" in (tmp_path / "parameter_server.html").read_text()


@pytest.mark.slow
@pytest.mark.extended
def test_search(run_example: Callable[[str], Ran]) -> None:
    script = run_example("search.py")
    found = re.findall(r"^(\w+): +validation loss ([\d.]+), ([\d.]+)% of unseen", script.stdout, re.MULTILINE)
    (default, loss, right), (best, best_loss, best_right) = found
    assert (default, best) == ("default", "best")
    assert float(best_loss) < 0.75 * float(loss)
    assert float(best_right) > float(right)
    states = dict(re.findall(r"'(\w+)': (\d+)", script.stdout.partition("states: ")[2].splitlines()[0]))
    assert set(states) == {"complete", "pruned"}
    assert int(states["complete"]) + int(states["pruned"]) == 20
