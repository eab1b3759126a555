"""The reference in the documentation is complete, and its generated pages match the code."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

import jupyter_dtf
from jupyter_dtf import cli
from jupyter_dtf.handlers.app import JupyterDTF
from tools import reference

ROOT = Path(__file__).parents[3]


def test_every_public_name_is_in_the_reference() -> None:
    text = "\n".join(page.read_text() for page in (ROOT / "docs/reference").glob("*.md"))
    described = re.findall(r"^\.\. auto\w+:: jupyter_dtf\.(\w+)$", text, re.MULTILINE)
    assert sorted(described) == sorted({*jupyter_dtf.__all__} - {"__version__"})


def test_commands_magics_settings_and_routes_are_all_there() -> None:
    pages = reference.pages()
    parser = cli._parser()
    (commands,) = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    assert _headings(pages["commands.md"]) == [f"jupyter dtf {name}" for name in commands.choices]
    assert {"%dtf start", "%dtf logs", "%%dtf run", "%%dtf fit"} <= set(_headings(pages["magics.md"]))
    for trait in ("allowed_kinds", "data_dir", "keep_runs"):
        assert f"| `c.JupyterDTF.{trait}` | `{getattr(JupyterDTF, trait).default()!r}` | " in pages["settings.md"]
    for setting in json.loads((ROOT / "schema/settings.json").read_text())["properties"]:
        assert f"(`{setting}`)" in pages["settings.md"]
    paths = json.loads((ROOT / "jupyter_dtf/handlers/openapi.json").read_text())["paths"]
    assert [f"/jupyter-dtf/api{path}" for path in _headings(pages["routes.md"])] == list(paths)


def test_links_of_files_at_the_root_are_those_of_pages() -> None:
    text = "[a](docs/data.md#arrays) [b](CHANGELOG.md) [c](LICENSE) [d](https://example.org/x) [e](#here)"
    moved = "[a](../data.md#arrays) [b](changelog.md) [c](../../LICENSE) [d](https://example.org/x) [e](#here)"
    assert reference._from_root(text) == moved


def _headings(page: str) -> list[str]:
    return re.findall(r"^## (.+)$", page, re.MULTILINE)
