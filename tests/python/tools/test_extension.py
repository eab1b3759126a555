"""A build of the lab extension is taken from a wheel only if it was made from the same sources."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tools import extension

WITHIN = "jupyter_dtf-0.1.0.data/data/share/jupyter/labextensions/jupyter_dtf"


@pytest.fixture(autouse=True)
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Create a checkout with a few files."""
    locked = ["package.json", "package-lock.json", "tsconfig.json"]
    for name in ["src/index.ts", "style/base.css", "schema/a.json", *locked]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(extension, "ROOT", tmp_path)
    monkeypatch.setattr(extension, "BUILD", tmp_path / "build")


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """Create a wheel with a build of the current sources."""
    build = tmp_path / "build"
    (build / "static").mkdir(parents=True)
    (build / "package.json").write_text("{}")
    (build / "static" / "style.js").write_text("built")
    extension.main("stamp", [])
    path = tmp_path / "jupyter_dtf-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file in build.rglob("*"):
            if file.is_file():
                archive.write(file, f"{WITHIN}/{file.relative_to(build).as_posix()}")
                file.unlink()
        archive.writestr(f"{WITHIN}/install.json", "{}")
        archive.writestr(f"{WITHIN}/../../../../../../outside", "")
        archive.writestr("jupyter_dtf/__init__.py", "")
    return path


def test_a_wheel_of_these_sources_is_the_build(wheel: Path, tmp_path: Path) -> None:
    assert extension.main("find", []) == 1
    assert extension.main("find", [str(tmp_path / "none.whl"), str(wheel)]) == 0
    build = tmp_path / "build"
    found = sorted(path.relative_to(build).as_posix() for path in build.rglob("*") if path.is_file())
    assert found == ["package.json", "sources.json", "static/style.js"]
    assert not list(tmp_path.rglob("outside"))
    assert extension.main("find", []) == 0


@pytest.mark.parametrize("name", ["src/index.ts", "style/new.css", "package-lock.json"])
def test_neither_a_wheel_nor_a_build_of_other_sources_is(wheel: Path, tmp_path: Path, name: str) -> None:
    extension.main("find", [str(wheel)])
    (tmp_path / name).write_text("changed")
    assert extension.main("find", []) == 1
    assert extension.main("find", [str(wheel)]) == 1


def test_what_is_no_wheel_of_ours_is_passed_over(tmp_path: Path) -> None:
    broken = tmp_path / "broken.whl"
    broken.write_text("broken")
    with zipfile.ZipFile(tmp_path / "others.whl", "w") as archive:
        archive.writestr("other/__init__.py", "")
    assert extension.main("find", [str(broken), str(tmp_path / "others.whl")]) == 1
