"""The code in the documentation runs, and every command is documented."""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import jupyter_dtf as dtf
from jupyter_dtf import cli
from jupyter_dtf.notebook.session import session

from ..notebook.kernel import Notebook

DOCS = Path(__file__).parents[3] / "docs"


def blocks(page: str, language: str = "") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)


def run_script(text: str, directory: Path) -> subprocess.CompletedProcess[str]:
    script = directory / "script.py"
    script.write_text(text)
    found = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=110, check=False)
    assert found.returncode == 0, found.stderr
    return found


@pytest.mark.slow
def test_python_api(tmp_path: Path) -> None:
    found = run_script("\n".join(blocks("python-api.md", "python")), tmp_path)
    assert "[0, 1]\n" in found.stdout
    assert "I am worker:1\n" in found.stdout
    assert "stopped\n" in found.stdout
    assert "ValueError: no luck" in found.stdout
    assert "worker|localhost:2222;localhost:2223,ps|localhost:2221" in found.stdout


@pytest.mark.slow
def test_getting_started(tmp_path: Path) -> None:
    try:
        with dtf.Cluster(jobs={"worker": 2}, name="local-1"):
            run_script("\n".join(blocks("getting-started.md", "python")), tmp_path)
    finally:
        session().close()


@pytest.mark.slow
def test_notebook() -> None:
    with Notebook() as notebook:
        for block in blocks("notebook.md"):
            for cell in [block] if block.startswith("%%") else block.splitlines():
                outputs = notebook.run(cell).outputs
                if cell.startswith("%%dtf run"):
                    assert outputs[-1].data["text/plain"] == "[0, 10]"


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
