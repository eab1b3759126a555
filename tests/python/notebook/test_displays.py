"""Objects are shown once, as text and without tracebacks, in a script, in IPython's terminal and in a notebook."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from .kernel import Notebook

THINGS = """
import numpy as np
import jupyter_dtf as dtf
from jupyter_dtf.client.run_trace import Trace
from jupyter_dtf.schema.trace import TraceData

def tell(_args, ctx):
    print("a word")
    ctx.report(step=1, loss=0.5)

cluster = dtf.Cluster(jobs={"worker": 1}, name="shown")
run = cluster.run(tell, name="told")
trace = Trace(TraceData())
widget = run.widget()
"""
SHOWN = {
    "cluster": r"<Cluster shown: running, local, 1 worker>",
    "run": r"<Run told, succeeded, loss 0\.5>",
    "trace": r"<Trace: 0 operations on 0 devices>",
    "widget": r"<Widget of <Run told, succeeded, loss 0\.5>>",
    "cluster.runs": r"\[<Run told, succeeded, loss 0\.5>\]",
    "servers": r"<Servers of shown: running, worker:0 at [\d.:]+>",
}
SHOW = r"told · succeeded · loss 0\.5"


def run_python(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], cwd=cwd, capture_output=True, text=True, timeout=120, check=False, encoding="utf-8"
    )


def test_in_a_script(tmp_path: Path) -> None:
    lines = [f"print({name})" for name in SHOWN if name != "servers"]
    (tmp_path / "script.py").write_text(
        "\n".join(
            [
                THINGS,
                *lines,
                "run.show()",
                "with cluster.servers() as servers:",
                "    print(servers)",
                "cluster.close()",
            ]
        )
    )
    found = run_python("script.py", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    expected = [*(SHOWN[name] for name in SHOWN if name != "servers"), SHOW, SHOWN["servers"]]
    assert len(found.stdout.splitlines()) == len(expected)
    for line, pattern in zip(found.stdout.splitlines(), expected, strict=True):
        assert re.fullmatch(pattern, line)
    assert "Traceback" not in found.stderr
    assert "application/vnd" not in found.stdout + found.stderr


def test_in_ipythons_terminal(tmp_path: Path) -> None:
    """Each expression is a cell of its own, because only the last expression of a cell is displayed."""
    cells = [THINGS, *(name for name in SHOWN if name != "servers"), "run.show()", "%load_ext jupyter_dtf"]
    cells += ["%dtf clusters", "%dtf runs", "%dtf logs told", "%dtf show told", "%%dtf run\nprint('in a cell')\n7"]
    cells += ["servers = cluster.servers(); servers", "servers.close(); cluster.close()"]
    script = f"""
from IPython.terminal.interactiveshell import TerminalInteractiveShell
shell = TerminalInteractiveShell.instance(simple_prompt=True, colors="NoColor")
for cell in {cells!r}:
    print("=====", flush=True)
    assert shell.run_cell(cell, store_history=True).success, cell
"""
    (tmp_path / "shell.py").write_text(script)
    found = run_python("shell.py", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    _, _, *shown = [part.strip() for part in found.stdout.split("=====\n")]
    for part, pattern in zip(shown, [SHOWN[name] for name in SHOWN if name != "servers"], strict=False):
        assert re.fullmatch(r"Out\[\d+\]: \n?" + pattern, part)
    show, load, clusters, runs, logs, show_again, cell, servers, end = shown[5:]
    assert re.fullmatch(SHOW, show)
    assert re.fullmatch(SHOW, show_again)
    assert (load, end) == ("", "")
    assert re.search(r"^shown +running +local +1 worker ", clusters, re.MULTILINE)
    assert " told " in runs
    assert logs == "worker:0 | a word"
    assert re.fullmatch(r"worker:0 \| in a cell\nOut\[\d+\]: 7", cell)
    assert re.fullmatch(r"Out\[\d+\]: \n?" + SHOWN["servers"], servers)
    assert "Traceback" not in found.stderr


def test_in_a_notebook() -> None:
    with Notebook() as notebook:
        notebook.run(THINGS)
        for name, pattern in SHOWN.items():
            if name not in ("servers", "widget"):
                assert re.fullmatch(pattern, notebook.value(name))
        assert re.fullmatch(SHOWN["widget"], notebook.displayed("widget")["text/plain"])
        assert "application/vnd.jupyter-dtf.run+json" in notebook.displayed("run.show()")
        notebook.run("cluster.close()")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_display_whose_reader_is_gone_says_nothing(tmp_path: Path, stream: str) -> None:
    script = f"""
import os, sys
import jupyter_dtf as dtf
with dtf.Cluster(jobs={{"worker": 1}}) as cluster:
    read, write = os.pipe()
    os.dup2(write, {1 if stream == "stdout" else 2})
    os.close(read); os.close(write)
    run = cluster.run(lambda _args, ctx: ctx.note("warning", "Beware"), name="told")
    run.show()
open("done", "w").close()
os.dup2(os.open(os.devnull, os.O_WRONLY), {1 if stream == "stdout" else 2})
"""
    (tmp_path / "script.py").write_text(script)
    found = run_python("script.py", cwd=tmp_path)
    assert (tmp_path / "done").exists(), found.stderr
    assert "Traceback" not in found.stderr + found.stdout
