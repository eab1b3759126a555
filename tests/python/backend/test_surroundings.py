"""Isolation of clusters from their surroundings: modules in the working directory, the umask, and other users."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from jupyter_dtf.backend.machine import children, paths

from ..patience import left_s

INSTALLED = [
    "absl", "cloudpickle", "dask", "distributed", "h5py", "jupyter_core", "keras", "ml_dtypes", "msgspec", "numpy",
    "optree", "pandas", "psutil", "rich", "tensorflow", "tlz", "tornado", "traitlets", "wrapt", "yaml",
]  # fmt: skip
PROGRAM = Path(__file__).with_name("surroundings.py")


def modules_beside(directory: Path) -> None:
    """Create modules named like installed ones, which record that they have run, and one module of the user's own."""
    names = [*sys.stdlib_module_names, *(name for name in INSTALLED if importlib.util.find_spec(name))]
    for name in names:
        (directory / f"{name}.py").write_text(
            f"open(__file__ + '.ran', 'w').close()\nraise ImportError('{name} beside the notebooks')\n"
        )
    (directory / "beside.py").write_text("VALUE = 'of the person'\n")


def ran(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("*.ran"))


@pytest.mark.parametrize("umask", ["000", "022"])
def test_a_cluster_with_a_umask_beside_such_modules(umask: str, tmp_path: Path) -> None:
    notebooks = tmp_path / "notebooks"
    notebooks.mkdir()
    modules_beside(notebooks)
    with tempfile.TemporaryDirectory() as short:  # there is a socket in it, whose path must be short
        done = subprocess.run(
            [sys.executable, str(PROGRAM), umask],
            cwd=notebooks,
            env={**os.environ, "TMPDIR": short},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
            timeout=left_s(),
        )
        left = os.listdir(short)
    assert left == [f"jupyter_dtf-{os.getuid()}"] and ran(notebooks) == []
    assert done.returncode == 0
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["open"] == []
    assert {"0.keras", "from-0", "from-1", "checkpoints"} <= set(found["kept"])
    for task in found["tasks"]:
        assert task["open"] == [] and task["beside"] == "of the person"
        assert task["umask"] == int(umask, 8) and task["elsewhere"] == 0o666 & ~int(umask, 8)
        last_installed = max(index for index, entry in enumerate(task["path"]) if entry.endswith("site-packages"))
        assert task["path"].index(str(notebooks)) > last_installed


@pytest.mark.parametrize("safe_path", [True, False])
def test_a_child_does_not_import_what_is_beside_it(
    safe_path: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds with ``-P``, without it as in old versions of Python, and for processes that the child spawns."""
    if safe_path and sys.version_info < (3, 11):
        pytest.skip("it has no -P")
    notebooks = tmp_path / "notebooks"
    elsewhere = tmp_path / "elsewhere"
    for directory in (notebooks, elsewhere):
        directory.mkdir()
    modules_beside(notebooks)
    (elsewhere / "parent.py").write_text(
        "import multiprocessing, sys\n"
        "def child(queue): queue.put(list(sys.path))\n"
        "if __name__ == '__main__':\n"
        "    import numpy, keyword\n"
        "    context = multiprocessing.get_context('spawn')\n"
        "    queue = context.Queue()\n"
        "    process = context.Process(target=child, args=(queue,))\n"
        "    process.start()\n"
        "    print(sys.argv[1:], '' in sys.path + queue.get())\n"
        "    process.join()\n"
    )
    monkeypatch.setattr(children, "_SAFE_PATH", (3, 11) if safe_path else (99,))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", str(elsewhere), "."]))
    command, environment = children.command("parent", "a", "b"), children.environment({"MORE": "1"})
    assert environment["PYTHONPATH"] == str(elsewhere) and environment["MORE"] == "1"
    done = subprocess.run(
        command, cwd=notebooks, env=environment, stdout=subprocess.PIPE, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "['a', 'b'] False\n")
    assert ran(notebooks) == []


def test_a_pythonpath_of_nothing_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"./{os.pathsep}")
    assert "PYTHONPATH" not in children.environment()


def test_what_older_versions_left_open_is_closed(tmp_path: Path) -> None:
    data = paths.data_dir()
    run = paths.runs_dir() / "one"
    (run / "checkpoints").mkdir(parents=True)
    outside = tmp_path / "outside"
    outside.touch()
    files = [run / "checkpoints" / "0.keras", paths.store_path(), data / "templates.json", data / "runs.sqlite-wal"]
    files.append(paths.connections_dir() / "a.json")
    for path in files:
        path.touch()
    (run / "link").symlink_to(outside)
    made = [data, paths.runs_dir(), run, run / "checkpoints", *files]
    for path in (*made, outside):
        path.chmod(0o777)
    paths.close_to_others()
    assert {path: path.stat().st_mode & 0o077 for path in made} == dict.fromkeys(made, 0)
    assert outside.stat().st_mode & 0o777 == 0o777


def test_a_directory_with_other_things_stays_as_it_is() -> None:
    data = paths.data_dir()
    paths.runs_dir().mkdir(parents=True)
    (data / "of others").touch()
    for path in (data, paths.runs_dir()):
        path.chmod(0o755)
    paths.close_to_others()
    assert data.stat().st_mode & 0o777 == 0o755 and paths.runs_dir().stat().st_mode & 0o777 == 0o700
