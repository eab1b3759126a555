"""Tests of scripts in a task: stand-ins for other libraries are found, and are not imported until they are used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.python.patience import left_s

BEGIN = """
import sys
from importlib.metadata import EntryPoint
from jupyter_dtf import entry_points
from jupyter_dtf.backend.task import script_program
from jupyter_dtf.schema.cluster import ClusterSpec
from types import SimpleNamespace

def run(source):
    ctx = SimpleNamespace(cluster_spec=ClusterSpec({"worker": {0: "localhost:1"}}), job_name="worker", task_index=0)
    script_program.run(script_program.Script(path="script.py", source=source, arguments=[], place_flags=[]), ctx)

points = entry_points.points(script_program.COMPAT)
"""


def run(code: str, directory: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", BEGIN + code]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=left_s(), check=False)


def test_a_script_finds_horovods_names(tmp_path: Path) -> None:
    done = run('run("import horovod; print(horovod.__name__)")', tmp_path)
    assert (done.stdout, done.returncode) == ("jupyter_dtf.compat.horovod\n", 0), done.stderr


def test_a_script_that_asks_for_nothing_imports_nothing_of_them(tmp_path: Path) -> None:
    surface = "[name for name in sys.modules if name.startswith('jupyter_dtf.compat.horovod.')]"
    done = run(f'run("import sys; print({surface})")', tmp_path)
    assert (done.stdout, done.returncode) == ("['jupyter_dtf.compat.horovod.install']\n", 0), done.stderr


def test_one_that_is_broken_takes_nothing_from_the_script(tmp_path: Path) -> None:
    code = (
        'points["mine"] = EntryPoint("mine", "no_such_module:install", script_program.COMPAT)\n'
        'run("import horovod; print(1)")'
    )
    done = run(code, tmp_path)
    assert (done.stdout, done.returncode) == ("1\n", 0), done.stderr
    assert done.stderr == "The stand-in for mine failed: ModuleNotFoundError: No module named 'no_such_module'\n"


def test_an_installation_from_before_says_what_to_do(tmp_path: Path) -> None:
    done = run('points.clear()\nrun("print(1)")\nrun("import horovod")', tmp_path)
    assert (done.stdout, done.returncode) == ("1\n", 1)
    assert "No stand-ins for other libraries are installed. Reinstall the package: pip install" in done.stderr
    assert "ModuleNotFoundError: No module named 'horovod'" in done.stderr
