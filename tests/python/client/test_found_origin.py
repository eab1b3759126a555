"""Tests of the code, arguments and versions that are recorded when a run is submitted."""

from __future__ import annotations

import linecache
import runpy
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jupyter_dtf.client.found_origin import MOST_CODE, code_of, origin_of, shown_arguments, source_of
from jupyter_dtf.client.submitting import request_of
from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.notebook.cell import prepare
from jupyter_dtf.schema.run_options import RunOptions


def test_the_calling_file_and_functions_of_other_files_are_the_code(tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    other.write_text("def main_fun(args, ctx):\n    return args\n\n\nunused = 1\n")
    names: dict[str, Any] = {"__name__": "other"}
    exec(compile(other.read_text(), str(other), "exec"), names)

    def here() -> None: ...

    calling, function = code_of(here, names["main_fun"], print)
    assert (calling.name, calling.text) == (__file__, Path(__file__).read_text())
    assert (function.name, function.text) == ("main_fun", "def main_fun(args, ctx):\n    return args\n")


def test_a_cell_is_found_by_what_ipython_keeps_of_it() -> None:
    text, filename = "found = code_of()\n", "/tmp/ipykernel_1/2.py"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    names: dict[str, Any] = {"__name__": "__main__", "code_of": code_of}
    exec(compile(text, filename, "exec"), names)
    (cell,) = names["found"]
    assert (cell.name, cell.text) == ("cell", text)
    assert code_of(print, own=prepare("1 + 1", {})) == [source_of("cell", "1 + 1")]


def test_a_script_that_was_edited_and_run_again_is_as_it_is_now(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    for rate in ("0.1", "0.25"):
        script.write_text(f"rate = {rate}\nfound = code_of()\n")
        (source,) = runpy.run_path(str(script), {"code_of": code_of})["found"]
        assert (source.name, source.text) == (str(script), script.read_text())


def test_a_long_program_is_kept_by_its_beginning() -> None:
    source = source_of("long.py", "x" * (MOST_CODE + 7))
    assert source.text == "x" * MOST_CODE + "... (7 more characters)"


@dataclass
class Settings:
    rate: float
    layers: list[int]


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (
            {"steps": 3, "name": "x", "on": True, "api_key": "1", 4: 5, "data": np.zeros(3)},
            {"steps": 3, "name": "x", "on": True},
        ),
        (Namespace(lr=0.5, password="p"), {"lr": 0.5}),
        ({"use_auth": True, "auth": "x", "db": "//a:b@c/d"}, {"use_auth": True, "db": "//a:***@c/d"}),
        (Settings(0.1, [1]), {"rate": 0.1}),
        ({"huge": 2**70, "wide": np.float64(1.5)}, {"wide": 1.5}),
        (None, {}),
        ([1, 2], {}),
    ],
)
def test_plain_arguments_with_names_are_shown(arguments: Any, shown: dict[str, Any]) -> None:
    found = shown_arguments(arguments)
    assert found == shown
    assert {type(value) for value in found.values()} <= {int, float, str, bool}


def test_no_code_is_kept_where_none_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    code = [source_of("cell", "1")]
    assert request_of(RunOptions(), code=code).code == code
    monkeypatch.setenv("JUPYTER_DTF_KEEP_CODE", "0")
    assert request_of(RunOptions(), code=code).code == []
    monkeypatch.setenv("JUPYTER_DTF_KEEP_CODE", "no")
    with pytest.raises(InvalidInput, match="must be 0 or 1, got 'no'"):
        request_of(RunOptions(), code=code)


def test_versions_and_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git/refs/heads").mkdir(parents=True)
    (tmp_path / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / ".git/refs/heads/main").write_text("0" * 40 + "\n")
    found = origin_of("mlp", 9, "arrays")
    assert (found.model, found.weights, found.data) == ("mlp", 9, "arrays")
    assert {"TensorFlow", "Keras", "jupyter_dtf", "Python"} <= found.versions.keys()
    assert (found.commit, found.branch, found.directory) == ("0" * 40, "main", str(tmp_path))
