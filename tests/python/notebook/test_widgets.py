"""Tests of widgets in a real kernel, on a real cluster: the documentation's example, and what is saved of it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nbconvert import HTMLExporter

from .kernel import Notebook

pytestmark = pytest.mark.module_directories

VIEW = "application/vnd.jupyter.widget-view+json"
RUN = "application/vnd.jupyter-dtf.run+json"
DOCS = Path(__file__).parents[3] / "docs" / "notebook.md"

SETUP = """
import asyncio, threading
import keras
from sklearn.datasets import load_digits
import jupyter_dtf as dtf

x, y = load_digits(return_X_y=True)
x = x.astype("float32") / 16
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(32, "relu"), keras.layers.Dense(10, "softmax")])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
cluster = dtf.Cluster(jobs={"worker": 2}, name="watched", threads_per_host=2)
whole = dtf.ClusterWidget(cluster)
called = []
whole.observe(lambda change: called.append((threading.current_thread() is threading.main_thread(), change.new)), "runs")

async def until(widget, condition):
    come = asyncio.Event()
    look = lambda change: condition() and come.set()
    widget.observe(look)
    look(None)
    await come.wait()
    widget.unobserve(look)
"""


@pytest.fixture(scope="module")
def notebook(no_process_left_by_module: None) -> Iterator[Notebook]:
    with Notebook() as made:
        made.run(SETUP)
        yield made
        made.run("cluster.close()")


def picture(data: dict[str, Any]) -> str:
    """Return the heading of an output's picture."""
    (title,) = re.findall("<title>(.*?)</title>", data["image/svg+xml"])[:1]
    return str(title)


@pytest.mark.timeout(300)
def test_the_example_and_what_is_saved_of_it(notebook: Notebook) -> None:
    (example,) = (text for text in re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL) if "Widget" in text)
    composed = notebook.run(example)
    assert VIEW in composed.outputs[0].data
    # In one cell, because nbclient ignores what arrives between two cells.
    shown_apart = notebook.run(
        """
third, more = dtf.RunWidget(run), dtf.RunWidget(run)
more.children += (ipywidgets.Label("mine"),)
display(shown, third, more)
await until(shown, lambda: shown.state == "stopped")
for widget in (shown, third, more):
    assert widget.wait()
"""
    )
    of_run = notebook.run("run.show()")
    assert notebook.value("shown.best['loss'] < 2") == "True"
    assert notebook.value("best.value == f'best loss {shown.best[\"loss\"]:.3f}', shown.progress < 1") == "(True, True)"
    assert notebook.value("sorted(shown.task_metrics), sorted(shown.tasks)") == (
        "(['worker:0', 'worker:1'], ['worker:0', 'worker:1'])"
    )
    assert notebook.value("[t.name for t in threading.enumerate() if t.name.startswith('dtf-widget')]") == (
        "['dtf-widget']"  # the cluster's widget, which is still active
    )

    # The outputs now contain the final picture. Only that of the edited widget still has a view that needs a kernel.
    kept = {
        name: output.data for name, output in zip(("alone", "dashboard", "edited"), shown_apart.outputs, strict=True)
    }
    assert {name: VIEW in data for name, data in kept.items()} == {"alone": False, "dashboard": False, "edited": True}
    assert {name: RUN in data for name, data in kept.items()} == {"alone": False, "dashboard": True, "edited": False}
    assert all(
        re.search("stopped · epoch [0-9]+/500", picture(data)) for data in (*kept.values(), of_run.outputs[0].data)
    )

    # Without a kernel, there is a picture for each output with a run alone, and ipywidgets' state for the others.
    html, _ = HTMLExporter().from_notebook_node(notebook.saved())
    images = [base64.b64decode(image).decode() for image in re.findall('data:image/svg.xml;base64,([^"]+)', html)]
    assert len([image for image in images if "stopped · epoch" in image]) == 4
    state = notebook.saved(state=True).metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"]
    drawn = (
        re.search('base64,([^"]+)', model["state"].get("value", ""))
        for model in state.values()
        if "HTML" in model["model_name"]
    )
    pictures = [base64.b64decode(image[1]).decode() for image in drawn if image]
    assert any("stopped · epoch" in each for each in pictures)
    json.dumps(state, allow_nan=False)


@pytest.mark.timeout(300)
def test_a_cluster(notebook: Notebook) -> None:
    shown = notebook.run("whole")
    assert VIEW in shown.outputs[0].data and "watched" in shown.outputs[0].data["text/html"]
    notebook.run("await until(whole, lambda: whole.state == 'running')")  # no earlier test may have waited for it
    assert notebook.value("whole.state, whole.jobs, whole.workers") == "('running', {'worker': 2}, 2)"
    assert notebook.value("await until(whole, lambda: whole.hosts); whole.hosts[0]['threads'] > 0") == "True"
    notebook.run(
        """
def wait_on(ctx_path, ctx):
    ctx.report(step=1, loss=0.5)
    ctx.stop_requested.wait()

run = cluster.run(wait_on, name="waits", wait=False)
await until(whole, lambda: [r["metrics"] for r in whole.runs if r["state"] == "running"] == [{"loss": 0.5}])
"""
    )
    assert notebook.value("all(on_main for on_main, _ in called), whole.runs[0]['name']") == "(True, 'waits')"
    head = "(_line, wanted, scale, stop) = whole.children[0].children; "
    notebook.run(head + "wanted.value = 3; scale.click(); await until(whole, lambda: whole.workers == 3)")
    assert notebook.value("cluster.jobs") == "{'worker': 3}"
    # The button asks first, because one click would end a run.
    notebook.run("await until(whole, lambda: whole.active_runs == 1)")
    assert notebook.value("stop.click(); stop.description, whole.state") == "('Stop cluster and 1 run', 'running')"
    # Also in one cell, because the state is published before the final picture is.
    ended = "stop.click(); await until(whole, lambda: whole.state == 'stopped'); "
    assert notebook.value(ended + "whole.wait(), run.wait().status, whole.hosts") == "(True, 'stopped', [])"
    assert notebook.value("[t for t in threading.enumerate() if t.name.startswith('dtf-widget')]") == "[]"
    data = shown.outputs[0].data
    assert VIEW not in data and "stopped" in data["text/html"]
