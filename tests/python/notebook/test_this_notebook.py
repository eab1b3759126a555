"""Tests of ``dtf.cluster()`` in a real kernel, and of the messages between the kernel and JupyterLab's page."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from jupyter_core.utils import run_sync

import jupyter_dtf as dtf
from jupyter_dtf.client.notebook_cluster import VARIABLE
from jupyter_dtf.client.session import session
from jupyter_dtf.notebook.kernel_cluster import COMM_TARGET, OWNED_VARIABLE

from .kernel import Notebook

pytestmark = pytest.mark.module_directories

CREATED = "cluster.name, cluster.info.created"


class Page(Notebook):
    """A kernel behind JupyterLab's page, which tells it the notebook's cluster when it starts."""

    def __init__(self) -> None:
        super().__init__()
        self.metadata = {"name": "", "owned": False}
        self._client.comm_open_handlers[COMM_TARGET] = self._on_told

    def _on_told(self, message: dict[str, Any]) -> None:
        self.metadata = message["content"]["data"]

    def __enter__(self) -> Page:
        super().__enter__()
        self.tell()
        return self

    def tell(self) -> None:
        name = self.metadata["name"]
        told = {VARIABLE: name, OWNED_VARIABLE: name if self.metadata["owned"] else ""}
        self.run(f"__import__('os').environ.update({told})")

    def connect(self, name: str) -> None:
        self.metadata = {"name": name, "owned": False}
        self.tell()

    def restart(self) -> None:
        manager: Any = self._client.km
        client: Any = self._client.kc
        run_sync(manager.restart_kernel)()
        run_sync(client.wait_for_ready)()
        self.tell()


@pytest.fixture
def page(no_process_left: None) -> Iterator[Page]:
    """Start a kernel for this test only: whatever code has started in it ends with it."""
    with Page() as page:
        page.run("import jupyter_dtf as dtf")
        yield page


@pytest.fixture(scope="module")
def panels(no_process_left_by_module: None) -> Iterator[dtf.Cluster]:
    """Start a cluster outside of the kernel."""
    with dtf.Cluster(1, name="panels") as cluster:
        yield cluster.wait_ready()
    session().close()


def test_one_is_started_and_shared_by_all_until_the_kernel_ends(page: Page) -> None:
    name = page.value("cluster = dtf.cluster(jobs=1)\ncluster.name").strip("'")
    assert page.metadata == {"name": name, "owned": True}
    assert page.value("dtf.cluster() is cluster and dtf.cluster(jobs=1) is cluster") == "True"
    page.run("del cluster\n%load_ext jupyter_dtf")
    assert page.value("%%dtf run\nctx.size") == "1"
    said = page.printed("dtf.cluster(jobs=3).jobs", "stderr")
    assert said.startswith(f"This notebook's cluster {name} has 1 worker, not 3 workers: ")
    assert page.value("with dtf.cluster() as same:\n    pass\nsame.status") == "'running'"

    before = page.value("cluster = dtf.cluster().wait_ready()\n" + CREATED)
    page.restart()
    assert page.value("import jupyter_dtf as dtf\ncluster = dtf.cluster()\n" + CREATED) == before


def test_what_is_chosen_in_the_page_is_what_code_and_magics_use(page: Page, panels: dtf.Cluster) -> None:
    page.connect("panels")
    assert page.value("cluster = dtf.cluster(jobs=1)\ncluster.name") == "'panels'"
    page.run("del cluster\n%load_ext jupyter_dtf\n%dtf scale worker=2")
    assert page.value("dtf.connect('panels').jobs") == "{'worker': 2}"
    assert page.value("%%dtf run\nctx.size") == "[2, 2]"
    assert page.value("with dtf.cluster() as same:\n    pass\nsame.status") == "'running'"
    page.restart()
    assert page.value("import jupyter_dtf as dtf\ndtf.cluster().name") == "'panels'"
    page.restart()
    assert panels.status == "running"


def test_what_code_chooses_is_told_to_the_page(page: Page, panels: dtf.Cluster) -> None:
    page.run("%load_ext jupyter_dtf\n%dtf use panels")
    assert page.metadata == {"name": "panels", "owned": False}
    page.connect("")
    page.run("cluster = dtf.cluster('panels')")
    assert page.metadata == {"name": "panels", "owned": False}
    page.run("other = dtf.cluster()\n%dtf start mine --jobs worker=1")
    assert page.metadata == {"name": "mine", "owned": True}
    page.run("%dtf stop")
    assert page.metadata == {"name": "", "owned": False}
    assert "UsageError: This notebook has no cluster" in page.printed("del cluster\n%dtf scale worker=1", "stderr")
    assert "There is no cluster named 'nope'" in page.error("dtf.cluster('nope')")
    assert "got 'panels' and jobs" in page.error("dtf.cluster('panels', jobs=2)")


def test_one_that_has_ended_is_replaced(page: Page) -> None:
    page.connect("gone")
    said = page.printed("cluster = dtf.cluster(jobs=1)", "stderr")
    name = page.value("cluster.name").strip("'")
    assert said.strip() == f"The cluster gone is no longer running. Started {name} for this notebook."
    assert page.metadata == {"name": name, "owned": True}
    page.run("cluster.close()")
    assert page.metadata == {"name": "", "owned": False}


def test_in_a_program_it_is_what_the_environment_says(panels: dtf.Cluster) -> None:
    program = "import jupyter_dtf as dtf; print(dtf.cluster().name)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, VARIABLE: "panels", OWNED_VARIABLE: "panels"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("panels\n", "")
    assert panels.status == "running"
