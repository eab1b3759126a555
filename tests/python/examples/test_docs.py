"""The code in the documentation runs, and every command is documented."""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
from pathlib import Path

import pytest

import jupyter_dtf as dtf
from jupyter_dtf import cli
from jupyter_dtf.backend.planning.check_design import check

from ..notebook.kernel import Notebook
from ..script import run

DOCS = Path(__file__).parents[3] / "docs"


def blocks(page: str, language: str = "") -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    return [text for tag, text in found if tag == language]


def run_script(text: str, directory: Path) -> subprocess.CompletedProcess[str]:
    path = directory / "script.py"
    path.write_text(text)
    return run(path, directory)


@pytest.mark.slow
def test_python_api(tmp_path: Path) -> None:
    found = run_script("\n".join(blocks("python-api.md", "python")), tmp_path)
    assert "[0, 1]\n" in found.stdout
    assert "I am worker:1\n" in found.stdout
    assert "stopped\n" in found.stdout
    assert "ValueError: no luck" in found.stdout
    assert "worker|localhost:2222;localhost:2223,ps|localhost:2221" in found.stdout


@pytest.mark.slow
@pytest.mark.extended
def test_coming_from_multiworkermirrored(tmp_path: Path) -> None:
    found = run_script("\n".join(blocks("coming-from/multiworkermirrored.md", "python")), tmp_path)
    assert re.search(r"^\[[0-9.e+-]+(, [0-9.e+-]+){2}\]$", found.stdout, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.extended
def test_coming_from_ray(tmp_path: Path) -> None:
    found = run_script("\n".join(blocks("coming-from/ray.md", "python")), tmp_path)
    assert "[0, 1]\n" in found.stdout
    assert "{'units': " in found.stdout.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.extended
def test_coming_from_dask_labextension(tmp_path: Path) -> None:
    found = run_script("\n".join(blocks("coming-from/dask-labextension.md", "python")), tmp_path)
    assert found.stdout.splitlines()[-1] == "(512, 1)"


@pytest.mark.slow
@pytest.mark.extended
def test_recovery(tmp_path: Path) -> None:
    texts = blocks("recovery.md", "python")
    assert all("dtf.Cluster" in text for text in texts)
    found = [run_script(text, tmp_path).stdout for text in texts]
    assert found[1].splitlines()[0] == "[25, 50, 60]"
    assert found[2].splitlines()[-1] == "[55.0, 55.0]"
    assert found[3].splitlines()[-1] == "[385.0, None]"


@pytest.mark.slow
def test_designer(tmp_path: Path) -> None:
    (text,) = blocks("designer.md", "json")
    design = dtf.Design.parse(text)
    assert check(design).problems == []
    design.cluster.hosts[0].gpus = []
    for place in design.cluster.tasks:
        place.device, place.memory_bytes = "CPU", 0  # there may be no GPU here
    design.save(tmp_path / "lab.dtf")
    found = run_script("\n".join(blocks("designer.md", "python")), tmp_path)
    assert "'/job:ps/task:0/device:CPU:0'" in found.stdout
    saved = dtf.Design.open(tmp_path / "now.dtf")
    assert saved.run.microbatches == 16
    assert saved.cluster.tasks[-1] == design.cluster.tasks[-1]


@pytest.mark.slow
@pytest.mark.extended
def test_servers(tmp_path: Path) -> None:
    found = run_script("\n".join(blocks("servers.md", "python")), tmp_path)
    lines = found.stdout.splitlines()
    assert "worker:1 at 127.0.0.1:" in lines[0]
    assert lines[1:4] == ["[[1. 3.]", " [0. 1.]]", "2"]
    assert "/job:worker/replica:0/task:1/device:CPU:0" in lines[4]
    assert "tf.Tensor(7.0" in lines[5]
    assert re.fullmatch(r"\[(20, \d+|\d+, 20), None\]", lines[6])


@pytest.mark.slow
@pytest.mark.extended
def test_placement(tmp_path: Path) -> None:
    found = run_script("\n".join(blocks("placement.md", "python")), tmp_path)
    assert float(found.stdout.splitlines()[0]) == 8e6
    assert re.search(r"product +_?\w*MatMul +/job:worker/task:1/device:CPU:0", found.stdout)
    assert re.search(r"square +160000", found.stdout)
    assert "eye (MatMul), placed on /job:worker/task:0, did not run" in found.stdout
    *_, marked, profiled = found.stdout.splitlines()
    assert marked == "[5, 6]"
    assert re.fullmatch(r"\[\d+(, \d+){2,5}\] \['worker:0', 'worker:1'\]", profiled)


@pytest.mark.slow
@pytest.mark.extended
def test_layers(tmp_path: Path) -> None:
    found = run_script("\n".join(blocks("layers.md", "python")), tmp_path)
    assert re.search(r"^dense_0 Dense \[\[1, 512\]\] 262656 525312$", found.stdout, re.MULTILINE)
    assert re.search(r"^/job:worker/task:[01]/device:CPU:0: dense_0, ", found.stdout, re.MULTILINE)
    assert re.search(
        r"^A step of 512 examples in 8 microbatches: [0-9.]+ (?:m?s|µs), bubble \d+%$", found.stdout, re.MULTILINE
    )
    # Microbatches that take less than half a column are not drawn, even the first one. This depends on the machine.
    rows = re.findall(r"^/job:worker/task:[01]/device:CPU:0 ([0-7a-h.=]+)$", found.stdout, re.MULTILINE)
    assert rows and all(re.search("[0-7].*[a-h]", row) for row in rows)


@pytest.mark.slow
@pytest.mark.extended
def test_in_graph(tmp_path: Path) -> None:
    found = run_script("\n".join(blocks("in-graph.md", "python")), tmp_path)
    assert "'/job:worker/replica:0/task:1/device:CPU:0'" in found.stdout


@pytest.mark.slow
@pytest.mark.extended
def test_pipeline(tmp_path: Path) -> None:
    found = run_script("\n".join(blocks("pipeline.md", "python")), tmp_path)
    rows = re.findall(r"^\d +(\w+) +\[(.*?)\] +\[(.*?)\] +True$", found.stdout, re.MULTILINE)
    first, second = "/job:worker/task:0/device:CPU:0", "/job:worker/task:1/device:CPU:0"
    assert rows == [("first", first, first), ("second", second, second), ("classes", second, second)]


@pytest.mark.extended
def test_devices(tmp_path: Path) -> None:
    found = run_script("\n".join(blocks("devices.md", "python")), tmp_path)
    assert "has none for 2 tasks\n" in found.stdout or "GPU:0" in found.stdout


@pytest.mark.slow
@pytest.mark.extended
def test_collectives(tmp_path: Path) -> None:
    found = run_script("\n".join(blocks("collectives.md", "python")), tmp_path)
    right, rest = found.stdout.splitlines()[-1].split(" ", 1)
    assert int(right) > 1600
    assert rest == "of 1797 right, weights equal: True"


@pytest.mark.slow
def test_getting_started(tmp_path: Path) -> None:
    shown = "print(cluster.name)"
    found = run_script("\n".join([*blocks("getting-started.md", "python"), shown]), tmp_path)
    assert found.stdout.splitlines()[-1] == "local-1"  # no panel has selected a cluster, so one was started


MODEL = """
import keras
from sklearn.datasets import load_digits

x, y = load_digits(return_X_y=True)
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(10)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
"""


@pytest.mark.slow
@pytest.mark.extended
def test_notebook() -> None:
    with Notebook() as notebook:
        notebook.run(MODEL)  # required by the page's cell with `fit`
        for block in blocks("notebook.md"):
            for cell in [block] if block.startswith("%%") else block.splitlines():
                outputs = notebook.run(cell).outputs
                if cell.startswith("%%dtf run"):
                    assert outputs[-1].data["text/plain"] == "[0, 10]"


@pytest.mark.slow
@pytest.mark.extended
def test_horovod(tmp_path: Path) -> None:
    shown = "print(run.history['accuracy'][-1], sorted(set(run.metrics.query(\"metric == 'loss'\")['task'])))"
    found = run_script("\n".join([*blocks("horovod.md", "python"), shown]), tmp_path)
    accuracy, tasks = found.stdout.splitlines()[-1].split(" ", 1)
    assert float(accuracy) > 0.8
    assert tasks == "['worker:0', 'worker:1']"


def test_command_lines_are_understood() -> None:
    parser = cli._parser()
    (commands,) = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    lines = [line for block in blocks("command-line.md") for line in block.splitlines()]
    assert all(line.startswith("jupyter dtf ") for line in lines)
    for line in lines:
        parser.parse_args(shlex.split(line)[2:])
    assert {line.split()[2] for line in lines} == set(commands.choices)


def test_options_are_documented() -> None:
    parser = cli._parser()
    (commands,) = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    page = (DOCS / "command-line.md").read_text()
    options = {o for c in commands.choices.values() for a in c._actions for o in a.option_strings if o.startswith("--")}
    missing = {option for option in options - {"--help", "--kind"} if option not in page}
    assert not missing


@pytest.mark.slow
@pytest.mark.extended
def test_search(tmp_path: Path) -> None:
    found = run_script("\n".join(blocks("searches.md", "python")), tmp_path)
    assert found.stdout.splitlines()[0] == "[10, 40, 90]"
    assert "{'units': " in found.stdout
    assert found.stdout.splitlines()[-1] == "4"
