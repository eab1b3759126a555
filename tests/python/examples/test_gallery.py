"""Tests of the gallery: every example has a row, and the newer ones do what they say, on one cluster."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

import jupyter_dtf as dtf
from jupyter_dtf.client import notebook_cluster
from jupyter_dtf.client.session import session

from ..notebook.kernel import Notebook
from ..script import run

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
NOTEBOOKS = sorted((EXAMPLES / "notebooks").glob("*.ipynb"))
PICTURES = ROOT / "docs" / "images" / "gallery"


class TestPage:
    rows = [line for line in (ROOT / "docs" / "gallery.md").read_text().splitlines() if "](../examples/" in line]

    def test_every_example_has_a_row_and_every_row_a_file(self) -> None:
        linked = [file for row in self.rows for file in re.findall(r"\]\(\.\./(examples/[^)]+)\)", row)]
        found = {path.relative_to(ROOT).as_posix() for end in ("py", "ipynb") for path in EXAMPLES.rglob(f"*.{end}")}
        assert sorted(linked) == sorted(path for path in found if ".ipynb_checkpoints" not in path)

    def test_every_picture_is_there_and_small(self) -> None:
        shown = [name for row in self.rows for name in re.findall(r"\(images/gallery/([^)]+)\)", row)]
        sizes = {path.name: path.stat().st_size for path in PICTURES.iterdir()}
        assert sorted(shown) == sorted(sizes)
        assert max(sizes.values()) < 40_000
        assert sum(sizes.values()) < 500_000


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_kept_without_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code
    assert all(not cell.outputs and cell.execution_count is None for cell in code)


@pytest.fixture(scope="module")
def cluster() -> Iterator[dtf.Cluster]:
    """Start the cluster of two workers that ``dtf.cluster()`` returns in all examples."""
    with dtf.Cluster(jobs={"worker": 2}, name="gallery") as shared, pytest.MonkeyPatch.context() as patch:
        patch.setenv(notebook_cluster.VARIABLE, shared.name)
        yield shared
    session().close()


Said = Callable[[str], str]


@pytest.fixture
def said(cluster: dtf.Cluster, tmp_path: Path) -> Said:
    """Return a function that runs the script of a name and returns what it prints."""
    return lambda name: run(EXAMPLES / name, tmp_path).stdout


def numbers(pattern: str, text: str) -> list[float]:
    """Return the groups of the pattern's only match, as numbers."""
    (found,) = re.findall(pattern, text)
    return [float(value) for value in ([found] if isinstance(found, str) else found)]


@pytest.mark.slow
@pytest.mark.module_directories
@pytest.mark.extended
class TestScripts:
    def test_convolutions(self, said: Said) -> None:
        (right,) = numbers(r"not seen: ([\d.]+)% right", said("convolutions.py"))
        assert right > 90

    def test_denoising(self, said: Said, tmp_path: Path) -> None:
        before, after = numbers(r"noise: ([\d.]+) dB before, ([\d.]+) dB after", said("denoising.py"))
        assert after > before + 1
        assert (tmp_path / "denoised.png").read_bytes().startswith(b"\x89PNG")

    def test_language_model(self, said: Said) -> None:
        bits, alone = numbers(r"per letter: ([\d.]+); by the .* alone: ([\d.]+)", said("language_model.py"))
        assert bits < alone - 0.5

    def test_transformer_pipeline(self, said: Said) -> None:
        text = said("transformer_pipeline.py")
        rows = re.findall(r"^ *(\w+) \[/job:worker/task:(\d)/device:CPU:0\] +True$", text, re.MULTILINE)
        assert {"attention_1": "0", "attention_2": "1"}.items() <= dict(rows).items()
        assert [task for _, task in rows] == sorted(task for _, task in rows)
        right, chance = numbers(r"([\d.]+)% of the pieces right; by chance: (\d+)%", text)
        assert right > 2 * chance

    def test_recommender(self, said: Said) -> None:
        text = said("recommender.py")
        (right,) = numbers(r"use\? ([\d.]+)% right", text)
        assert right > 58
        first, second = numbers(r"updates: {'worker:0': (\d+), 'worker:1': (\d+)}", text)
        assert first == second > 100
        assert len(re.findall(r"^[\w.]+ may like: \w+(?:, \w+){5}$", text, re.MULTILINE)) == 2

    def test_backup_workers(self, said: Said) -> None:
        """How often the slow worker is late depends on the machine, but every step applies two gradients."""
        rows = re.findall(
            r"(\d) backup workers: .*accuracy ([\d.]+), applied: (.*) dropped: (.*)", said("backup_workers.py")
        )
        assert [row[0] for row in rows] == ["0", "1"]
        assert all(float(row[1]) > 0.8 for row in rows)
        applied, dropped = ([[int(n) for n in re.findall(r"\d+", row[column])] for row in rows] for column in (2, 3))
        assert applied[0] == [75, 75, 75]
        assert dropped[0] == [0, 0, 0]
        assert sum(applied[1]) == 2 * 75
        assert len(dropped[1]) == 3

    def test_predict(self, said: Said) -> None:
        text = said("predict.py")
        (apart,) = numbers(r"from one process: (\S+)", text)
        (accuracy,) = numbers(r"'accuracy': ([\d.]+)", text)
        held, of, are = numbers(r"(\d+) of (\d+) tumours are held to be malignant, (\d+) are", text)
        assert apart < 1e-5
        assert accuracy > 0.9
        assert of == 171
        assert abs(held - are) < 17

    def test_kmeans(self, said: Said) -> None:
        text = said("kmeans.py")
        (line,) = re.findall(r"by round: (.*)", text)
        distances = [float(value) for value in line.split()]
        assert len(distances) == 15
        assert distances == sorted(distances, reverse=True)
        assert numbers(r"around their centre: ([\d.]+)%", text)[0] > 60

    def test_adversarial(self, said: Said) -> None:
        rows = re.findall(r"^(\w+): ([\d.]+)% right, under attack ([\d.]+)%", said("adversarial.py"), re.MULTILINE)
        (plain, plain_right, plain_attacked), (hard, hard_right, hard_attacked) = rows
        assert (plain, hard) == ("Sequential", "Hardened")
        assert min(float(plain_right), float(hard_right)) > 80
        assert float(hard_attacked) > float(plain_attacked) + 25

    def test_population(self, said: Said) -> None:
        text = said("population.py")
        first, best = numbers(r"best of the first epoch: ([\d.]+); best of all: ([\d.]+)", text)
        assert best < first
        assert len(re.findall(r"^ *\d+ +\d+ .*\d\.\d+$", text, re.MULTILINE)) == 16


@pytest.fixture(scope="module")
def kernel(cluster: dtf.Cluster) -> Iterator[Notebook]:
    """Start one kernel for all notebooks, because importing TensorFlow takes longer than most of them."""
    with Notebook() as notebook:
        yield notebook


Execute = Callable[[str], None]


@pytest.fixture
def execute(kernel: Notebook, tmp_path: Path) -> Execute:
    """Return a function that runs all cells of a notebook, without the variables of the previous one."""

    def execute(name: str) -> None:
        kernel.run(f"%reset -f\n%cd {tmp_path}")
        for cell in nbformat.read(EXAMPLES / "notebooks" / f"{name}.ipynb", as_version=4).cells:
            if cell.cell_type == "code":
                kernel.run(cell.source)

    return execute


@pytest.mark.slow
@pytest.mark.module_directories
@pytest.mark.extended
class TestNotebooks:
    def test_there_is_a_test_for_each(self) -> None:
        assert {f"test_{path.stem}" for path in NOTEBOOKS} <= set(vars(TestNotebooks))

    def value(self, kernel: Notebook, expression: str) -> object:
        return eval(kernel.value(expression), {})

    def test_cluster_specs(self, kernel: Notebook, execute: Execute) -> None:
        execute("cluster_specs")
        assert self.value(kernel, "power.tolist()") == [[1.0, 3.0], [0.0, 1.0]]
        assert self.value(kernel, "counted") == [1, 2, 3, 4]
        assert self.value(kernel, "total, where") == (10, "/job:worker/replica:0/task:1/device:CPU:0")

    def test_parameter_servers(self, kernel: Notebook, execute: Execute) -> None:
        execute("parameter_servers")
        # An asynchronous worker makes an update for each of its shares. Synchronous ones make each update together.
        assert self.value(kernel, "table['updates'].astype(int).to_list()") == [4 * 2 * 23, 4 * 2 * 23, 4 * 23]
        assert self.value(kernel, "bool((table['accuracy'] > 0.6).all())") is True
        assert self.value(kernel, "float(table['staleness']['synchronous'])") == 0
        assert self.value(kernel, "float(apart)") < 1e-5  # type: ignore[operator]

    def test_allreduce(self, kernel: Notebook, execute: Execute) -> None:
        execute("allreduce")
        assert self.value(kernel, "float(apart)") < 1e-5  # type: ignore[operator]
        rates = self.value(kernel, "[[round(r[0], 3), round(max(r), 3), round(r[-1], 3)] for r in applied.values()]")
        assert rates[:2] == [[0.05] * 3, [0.1] * 3]  # type: ignore[index]
        assert rates[2][0] < 0.06 and rates[2][1:] == [0.1, 0.1]  # type: ignore[index]
        assert self.value(kernel, "min(run.history['val_accuracy'][-1] for run in runs.values())") > 0.7  # type: ignore[operator]

    def test_model_parallelism(self, kernel: Notebook, execute: Execute) -> None:
        execute("model_parallelism")
        assert self.value(kernel, "bool(run.placement()['as_planned'].all())") is True
        assert self.value(kernel, "len(set(map(str, run.placement()['actual'])))") == 2
        assert self.value(kernel, "run.history['val_accuracy'][-1]") > 0.6  # type: ignore[operator]

    def test_dask_fed(self, kernel: Notebook, execute: Execute) -> None:
        execute("dask_fed")
        assert self.value(kernel, "run.history['accuracy'][-1]") > 0.25  # type: ignore[operator]

    def test_recovery(self, kernel: Notebook, execute: Execute) -> None:
        execute("recovery")
        assert self.value(kernel, "happened.exists()") is True
        assert self.value(kernel, "steps['step'].astype(int).to_list()") == list(range(1, 4 * 29 + 1))
        assert self.value(kernel, "sorted(set(steps['attempt'].astype(int).to_list()))") == [0, 1]
        assert self.value(kernel, "len(run.history.epoch)") == 4
        assert self.value(kernel, "float(apart)") < 1e-6  # type: ignore[operator]
        assert self.value(kernel, "int(begins), longer.history.epoch") == (4 * 29 + 1, [0, 1, 2, 3, 4, 5])

    def test_search(self, kernel: Notebook, execute: Execute) -> None:
        execute("search")
        assert self.value(kernel, "set(search.trials['state']) <= {'complete', 'pruned'}") is True
        assert self.value(kernel, "len(search.trials)") == 8
        assert self.value(kernel, "search.best.value < by_hand['val_loss']") is True

    def test_learning(self, kernel: Notebook, execute: Execute) -> None:
        """Only two epochs of the harder set are trained. Speed is not checked, because it depends on the machine."""
        kernel.run("import os\nos.environ.update(LEARNING_EPOCHS='2', LEARNING_SETS='photographs')")
        execute("learning")
        counts = "pd.DataFrame(curves).groupby(['group', 'name', 'workers'])['epoch'].apply(list).to_list()"
        assert self.value(kernel, counts) == [[1, 2]] * (3 * 3 + 3 + 4)
        assert self.value(kernel, "len(curves)") == 2 * (3 * 3 + 3 + 4)
        assert self.value(kernel, "float(table.min().min())") > 1 / 12  # type: ignore[operator]
        assert self.value(kernel, "all(row['seconds'] > 0 for row in curves)") is True
        steps = "-(-len(data['photographs'][0]) // (3 * BATCH)) * EPOCHS"
        taken = "sum(counts['applied'] for counts in applied['photographs'].values())"
        assert self.value(kernel, f"{taken} == 2 * {steps}") is True
        rates = (
            "[[round(f(runs['photographs', name, 3].metrics.query(\"metric == 'learning_rate'\")['value']), 3) "
            "for f in (min, max)] for name in ('three, rate of one', 'three, scaled', 'three, scaled, warm-up')]"
        )
        found: Any = self.value(kernel, rates)
        (one, one_max), (scaled, scaled_max), (warm, warm_max) = found
        assert (one, one_max, scaled, scaled_max, warm_max) == (0.1, 0.1, 0.3, 0.3, 0.3)
        assert warm < 0.12
