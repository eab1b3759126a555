"""Run examples and save a picture of each for docs/gallery.md: python -m tools.gallery [NAME...].

A NAME is a file in ``examples``, such as ``notebooks/search.ipynb``. Without names, all examples are run, except the
programs for Horovod and TensorFlowOnSpark. Scripts run in a kernel, with ``%run``, so that they draw the same as in a
notebook. ``_HOW`` defines the picture of each example: a plot or an image of its own, the still picture of its run or
search, or its printed output.
"""

from __future__ import annotations

import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook
from PIL import Image

import jupyter_dtf as dtf
from tests.python import slurm
from tests.python.machines import Net

ROOT = Path(__file__).absolute().parent.parent
EXAMPLES = ROOT / "examples"
PICTURES = ROOT / "docs" / "images" / "gallery"
MAX_BYTES = 40_000

RUN_STILL = """
from jupyter_dtf.client.session import session
from jupyter_dtf.notebook.still import still
hub = session().hub
for shown in dtf.runs():
    lines = {{key: line for key, line in hub.lines(shown.id).items() if key[0].removeprefix("epoch_") in {metrics}}}
    if lines:
        open("picture.svg", "w").write(still(shown.info, lines))
        break
"""
RUN_IMAGE = """
from jupyter_dtf.client.session import session
media = session().hub.media(dtf.runs()[0].id, lambda kept: kept.picture({name!r}, "worker:0", float("inf")))
open("picture.png", "wb").write(media.png)
"""
BOKEH = """
from bokeh.io import save
from bokeh.resources import INLINE
save({plot}, "picture.html", resources=INLINE, title="picture")
"""

How = Callable[["Ran"], None]


class Ran:
    """Runs examples one after another in one kernel, each in an empty directory. A context manager."""

    def __init__(self) -> None:
        self._notebook: Any = new_notebook()  # type: ignore[no-untyped-call]
        self._client = NotebookClient(self._notebook, timeout=600, kernel_name="python3")
        self.path = EXAMPLES
        self.directory = Path()
        self.outputs: list[Any] = []

    def __enter__(self) -> Ran:
        self._kernel = self._client.setup_kernel()
        self._kernel.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._kernel.__exit__(*error)

    def run(self, name: str, directory: Path) -> None:
        self.path, self.directory, self.outputs = EXAMPLES / name, directory, []
        self.cell(f"%reset -f\n%cd {directory}")
        if name == "ssh.py":
            with Net(directory, ["ada", "bert"]) as net:
                hosts = " ".join(machine.entry for machine in net.machines)
                self._script(f"--key-file {net.key} --known-hosts {net.known_hosts} {hosts}")
        elif name == "slurm.py":
            self.cell(f"import os\nos.environ.update({slurm.install(directory)!r})")
            self._script("--memory 1 --interface lo")
        elif self.path.suffix == ".py":
            self._script()
        else:
            for cell in nbformat.read(self.path, as_version=4).cells:  # type: ignore[no-untyped-call]
                if cell.cell_type == "code":
                    self.outputs += self.cell(cell.source)
        self.cell("import jupyter_dtf as dtf")

    def _script(self, arguments: str = "") -> None:
        self.outputs += self.cell(f"%run {self.path} {arguments}")

    def cell(self, source: str) -> list[Any]:
        cell = new_code_cell(source)  # type: ignore[no-untyped-call]
        self._notebook.cells.append(cell)
        self._client.execute_cell(cell, len(self._notebook.cells) - 1)
        found: list[Any] = cell.outputs
        return found

    def printed(self) -> str:
        return "".join(output.text for output in self.outputs if output.output_type == "stream")


def run_still(*metrics: str) -> How:
    """Save the still picture of the newest run that has any of these metrics, showing only these."""

    def draw(ran: Ran) -> None:
        ran.cell(RUN_STILL.format(metrics=repr(metrics)))
        keep(ran, ran.directory / "picture.svg")

    return draw


def shown(ran: Ran) -> None:
    """Save the last picture among the outputs, of a search or of a run that has metrics."""
    pictures = [output.data["image/svg+xml"] for output in ran.outputs if "image/svg+xml" in output.get("data", {})]
    pictures = [picture for picture in pictures if "No metrics yet" not in picture]
    (ran.directory / "picture.svg").write_text(pictures[-1])
    keep(ran, ran.directory / "picture.svg")


def plot(expression: str, width: int, height: int) -> How:
    """Save a Bokeh plot, given as an expression with the example's variables."""

    def draw(ran: Ran) -> None:
        ran.cell(BOKEH.format(plot=expression))
        photograph(ran, ran.directory / "picture.html", width, height)

    return draw


def page(name: str, width: int, height: int) -> How:
    """Save a screenshot of a page that the example writes."""
    return lambda ran: photograph(ran, ran.directory / name, width, height)


def photograph(ran: Ran, path: Path, width: int, height: int) -> None:
    browser = os.environ.get("BROWSER_PATH") or shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("Pictures of plots need Chromium: set BROWSER_PATH to its path")
    picture = ran.directory / "picture.png"
    size = [f"--window-size={width},{height}", "--hide-scrollbars", "--virtual-time-budget=5000"]
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", *size, f"--screenshot={picture}", str(path)]
    subprocess.run(command, check=True, capture_output=True)
    keep(ran, picture)


def image(name: str) -> How:
    """Save an image that the example writes."""
    return lambda ran: keep(ran, ran.directory / name)


def run_image(name: str) -> How:
    """Save the last image with this name that the first worker of the newest run reported."""

    def draw(ran: Ran) -> None:
        ran.cell(RUN_IMAGE.format(name=name))
        keep(ran, ran.directory / "picture.png")

    return draw


def text(ran: Ran) -> None:
    """Save a picture of the last lines that the example printed, as in a terminal."""
    lines = [line[:100] for line in re.sub(r"\x1b\[[0-9;]*m", "", ran.printed()).splitlines() if line.strip()][-8:]
    width, height = max(600, 24 + 8 * max(map(len, lines))), 16 * len(lines) + 24
    rows = [
        f'<text x="12" y="{24 + 16 * number}" xml:space="preserve">{html.escape(line)}</text>'
        for number, line in enumerate(lines)
    ]
    (ran.directory / "picture.svg").write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="ui-monospace, monospace" font-size="12" fill="#212121">'
        f'<rect width="{width}" height="{height}" rx="4" fill="#f5f5f5"/>{"".join(rows)}</svg>'
    )
    keep(ran, ran.directory / "picture.svg")


def keep(ran: Ran, picture: Path) -> None:
    """Save a picture for the gallery page. A PNG is reduced to 64 colors."""
    name = ran.path.relative_to(EXAMPLES).as_posix().replace("/", "-").replace(".", "-")
    target = PICTURES / (name + picture.suffix)
    if picture.suffix == ".png":
        Image.open(picture).convert("RGB").quantize(64).save(target, optimize=True)
    else:
        target.write_text(picture.read_text() + "\n")
    size = target.stat().st_size
    print(f"{target.relative_to(ROOT)}: {size / 1000:.1f} kB", flush=True)
    if size > MAX_BYTES:
        sys.exit(f"A picture may have at most {MAX_BYTES} bytes, but {target.name} has {size}")


LOSS = run_still("loss", "accuracy", "val_loss", "val_accuracy")
_HOW: dict[str, How] = {
    "adversarial.py": text,
    "between_graph.py": run_still("loss"),
    "denoising.py": image("denoised.png"),
    "ensemble.py": text,
    "kmeans.py": run_image("centres"),
    "notebooks/allreduce.ipynb": plot("plots", 860, 280),
    "notebooks/cluster_specs.ipynb": shown,
    "notebooks/learning.ipynb": plot("drawn['scaled rates']", 880, 660),
    "notebooks/model_parallelism.ipynb": text,
    "notebooks/search.ipynb": shown,
    "parameter_server.py": page("parameter_server.html", 500, 340),
    "pipeline.py": text,
    "population.py": shown,
    "predict.py": text,
    "recommender.py": text,
    "search.py": shown,
    "in_graph.py": text,
    "transformer_pipeline.py": text,
}
"""How to make the pictures of examples. The others show the loss and the accuracy of the newest run (``LOSS``)."""


def main(names: list[str]) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    every = [path.relative_to(EXAMPLES).as_posix() for path in [*EXAMPLES.glob("*.py"), *EXAMPLES.rglob("*.ipynb")]]
    of_horovod = [name for name in every if name.startswith("horovod_")]  # they have no pictures
    with tempfile.TemporaryDirectory(prefix="dtf-gallery-") as directory:
        os.environ["JUPYTER_DTF_DATA_DIR"] = f"{directory}/data"
        with dtf.Cluster(jobs={"worker": 2}) as cluster:
            os.environ["JUPYTER_DTF_CLUSTER"] = cluster.name
            with Ran() as ran:
                for number, name in enumerate(names or sorted(set(every) - set(of_horovod))):
                    print(name, flush=True)
                    (own := Path(directory, str(number))).mkdir()
                    ran.run(name, own)
                    _HOW.get(name, LOSS)(ran)


if __name__ == "__main__":
    main(sys.argv[1:])
