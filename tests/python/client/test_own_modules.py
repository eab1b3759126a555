"""Tests of how the user's modules are read to be sent. ``test_ssh.py`` tests that they arrive on other machines."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jupyter_dtf.backend.task import own_modules as in_task
from jupyter_dtf.client import own_modules
from jupyter_dtf.errors import InvalidInput, NotFound
from jupyter_dtf.schema import payload


def test_a_file_a_package_and_an_imported_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one_file.py").write_text("X = 1\n")
    package = tmp_path / "my_package"
    for path in (package / "inner", package / "__pycache__", package / ".hidden"):
        path.mkdir(parents=True)
        (path / "file.py").touch()
    (package / "__init__.py").touch()
    (package / "words.txt").write_text("a")
    monkeypatch.syspath_prepend(str(tmp_path))
    my_package, one_file = map(importlib.import_module, ("my_package", "one_file"))

    for given in (
        [tmp_path / "one_file.py", str(package)],
        [one_file, my_package],
        [one_file, my_package.__file__],
    ):
        file, directory = own_modules.read(given)
        assert (file.name, file.files) == ("one_file", {"one_file.py": b"X = 1\n"})
        assert directory.name == "my_package"
        assert directory.files == {
            "my_package/__init__.py": b"", "my_package/words.txt": b"a", "my_package/inner/file.py": b"",
        }  # fmt: skip
    (alone,) = own_modules.read(str(package))
    assert alone == directory
    for name in ("one_file", "my_package"):
        sys.modules.pop(name)


@pytest.mark.parametrize("given", [3, [3], ["notes.txt"], [json.__loader__], ["empty"], ["my-module.py"]])
def test_what_is_no_module(given: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").touch()
    (tmp_path / "my-module.py").touch()
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match="must be .*, got ") as refused:
        own_modules.read(given)
    assert refused.value.field == "modules"
    with pytest.raises(NotFound, match="There is no file .*gone.py"):
        own_modules.read(["gone.py"])


@pytest.mark.parametrize(("name", "where"), [("json", "in Python's standard library"), ("numpy", "installed (")])
def test_one_that_would_not_be_found_says_so(name: str, where: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.py").touch()
    with pytest.raises(InvalidInput) as refused:
        own_modules.read([tmp_path / f"{name}.py"])
    assert f"a module named {name} is {where}" in str(refused.value)


def test_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_modules, "MOST_BYTES", 1000)
    (tmp_path / "large.py").write_bytes(b"#" * 1001)
    with pytest.raises(InvalidInput, match="`modules` must have at most 1,?000 B in total, got large "):
        own_modules.with_modules("a cluster", [tmp_path / "large.py"], (print, (), {}))


def test_arrays_travel_as_they_are(tmp_path: Path) -> None:
    """Arrays are packed once, outside the pickle, so that all tasks of a machine can map them from a shared file."""
    (tmp_path / "small.py").touch()
    array = np.arange(1 << 20)
    program = own_modules.with_modules("a cluster", [tmp_path / "small.py"], (np.sum, (array,), {}))
    packed = payload.pack(program)
    assert packed.count(array.tobytes()[:4096]) == 1
    function, (_modules, inner), _ = payload.unpack(bytearray(packed))
    assert function is in_task.run
    opened = inner.open()
    np.testing.assert_array_equal(opened[1][0], array)


def test_what_was_uploaded_is_of_one_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_modules, "_uploaded", {})
    (tmp_path / "small.py").write_text("1")
    program: tuple[Any, ...] = (print, (), {})
    assert own_modules.upload("first", [tmp_path / "small.py"]) == ["small"]
    assert own_modules.with_modules("second", [], program) == program
    (tmp_path / "small.py").write_text("2")
    _, ((before,), _), _ = own_modules.with_modules("first", [], program)
    _, ((now,), _), _ = own_modules.with_modules("first", [tmp_path / "small.py"], program)
    assert (before.files["small.py"], now.files["small.py"]) == (b"1", b"2")
