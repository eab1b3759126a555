"""Tests of copying examples into the user's folder."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import nbformat
import pytest
from jupyter_server.auth import Authorizer

from jupyter_dtf.handlers.examples import directory

from .conftest import Api


@pytest.fixture
def root(jp_root_dir: Path) -> Path:
    """Return the server's folder, with two folders and a file in it."""
    for folder in ("sub", ".hidden"):
        (jp_root_dir / folder).mkdir()
    (jp_root_dir / "digits.ipynb").write_text("mine")
    return jp_root_dir


def texts(root: Path) -> dict[str, str]:
    """Return the text of each file below a folder, without JupyterLab's checkpoints."""
    files = [path for path in root.rglob("*") if path.is_file() and ".ipynb_checkpoints" not in path.parts]
    return {str(path.relative_to(root)): path.read_text() for path in files}


def sources(text: str) -> list[str]:
    return [cell.source for cell in nbformat.reads(text, as_version=4).cells]


async def test_a_copy_has_a_name_of_its_own(api: Api, root: Path) -> None:
    assert await api("POST", "examples", "digits.ipynb", body={}) == {"path": "digits-1.ipynb"}
    assert api.response.code == 201
    both = [api("POST", "examples", "digits.ipynb", body={"folder": "sub"}) for _ in range(2)]
    assert {copy["path"] for copy in await asyncio.gather(*both)} == {"sub/digits.ipynb", "sub/digits-1.ipynb"}
    assert await api("POST", "examples", "digits.py", body={}) == {"path": "digits.py"}
    found, originals = texts(root), texts(directory())
    assert found.pop("digits.ipynb") == "mine"
    assert found.pop("digits.py") == originals["digits.py"]
    assert sorted(found) == ["digits-1.ipynb", "sub/digits-1.ipynb", "sub/digits.ipynb"]
    assert all(sources(text) == sources(originals["digits.ipynb"]) for text in found.values())


async def test_all_of_them_are_listed_and_can_be_copied(api: Api, root: Path) -> None:
    names = await api("GET", "examples")
    assert names[0] == "digits.ipynb"
    assert {"recovery.ipynb", "learning.ipynb", "kmeans.py"} <= set(names)
    copies = {(await api("POST", "examples", name, body={"folder": "sub"}))["path"] for name in names}
    assert copies == {f"sub/{name}" for name in names}


@pytest.mark.parametrize("name", ["nope.ipynb", "..", "%2E%2E%2Fpyproject.toml", "digits"])
async def test_only_examples_are_copied(api: Api, name: str) -> None:
    error = await api.refused(404, "POST", "examples", name, body={})
    assert error["error"] == "NotFound"


@pytest.mark.parametrize("folder", ["nope", "../..", ".hidden", "a\0b", "digits.ipynb"])
async def test_only_into_folders_that_the_server_shows(api: Api, root: Path, folder: str) -> None:
    error = await api.refused(404, "POST", "examples", "digits.ipynb", body={"folder": folder})
    assert error["message"].startswith("There is no folder ")
    assert texts(root) == {"digits.ipynb": "mine"}


async def test_a_folder_that_cannot_be_written(api: Api, jp_serverapp: object, monkeypatch: pytest.MonkeyPatch) -> None:
    def save(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(jp_serverapp.contents_manager, "save", save)  # type: ignore[attr-defined]
    error = await api.refused(503, "POST", "examples", "digits.ipynb", body={})
    assert error["message"] == "The folder '/' cannot be written: No space left on device"


async def test_who_may_write_no_files_gets_no_copy(
    api: Api, jp_serverapp: object, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_authorized(_self: Authorizer, _handler: object, _user: object, action: str, resource: str) -> bool:
        return (action, resource) != ("write", "contents")

    monkeypatch.setattr(type(jp_serverapp.authorizer), "is_authorized", is_authorized)  # type: ignore[attr-defined]
    await api.refused(403, "POST", "examples", "digits.ipynb", body={})
    assert texts(root) == {"digits.ipynb": "mine"}
