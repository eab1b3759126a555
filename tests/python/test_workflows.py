"""The workflows and forms of the repository match its other files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
CI = GITHUB / "workflows" / "ci.yml"


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


@pytest.mark.parametrize("path", sorted(GITHUB.rglob("*.yml")), ids=lambda path: path.stem)
def test_every_target_that_is_made_is_there(path: Path) -> None:
    assert read(path)
    targets = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"run: make ([a-z-]+)", path.read_text())) <= targets


def test_tests_run_on_every_python_that_is_supported() -> None:
    classifiers = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text())
    jobs = read(CI)["jobs"]
    assert jobs["tests"]["strategy"]["matrix"]["python"] == classifiers
    assert jobs["wheel"]["strategy"]["matrix"]["python"] == [classifiers[0], classifiers[-1]]


def test_the_form_for_bugs_knows_every_kind_of_cluster() -> None:
    entries = re.search(
        r'\[project\.entry-points\."jupyter_dtf\.kinds"\]\n(.*?)\n\n', (ROOT / "pyproject.toml").read_text(), re.S
    )
    assert entries
    kinds = set(re.findall(r"^(\w+) = ", entries[1], re.MULTILINE))
    (field,) = [each for each in read(GITHUB / "ISSUE_TEMPLATE" / "bug_report.yml")["body"] if each.get("id") == "kind"]
    assert {*field["attributes"]["options"]} == {*kinds, "none"}


def test_one_version_everywhere() -> None:
    version = json.loads((ROOT / "package.json").read_text())["version"]
    assert json.loads((ROOT / "package-lock.json").read_text())["version"] == version
    assert str(read(ROOT / "CITATION.cff")["version"]) == version
    released = re.findall(r"^## \[(\d[^\]]*)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert released[0] == version
