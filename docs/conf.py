"""Sphinx's configuration; `make docs` builds the site with warnings as errors."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import jupyter_dtf
from tools import reference

project = "jupyter_dtf"
author = "The jupyter_dtf contributors"
copyright = author
version = release = jupyter_dtf.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
exclude_patterns = ["_build"]

# Pages are read on a forge as well as here, so they are plain Markdown where that says enough.
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_preserve_defaults = True
autosummary_generate = False
napoleon_numpy_docstring = False
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = f"jupyter_dtf {release}"
html_theme_options = {"navigation_with_keys": True}
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["site.css"]

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Where a file of the repository is shown on the web, such as https://forge.example/project/blob/<commit>.
SOURCE_URL = os.environ.get("DOCS_SOURCE_URL", "").rstrip("/")

_LINK_OUT = re.compile(r"(?<!!)\[((?:[^\]\[]|\[[^\]]*\])+)\]\(((?:\.\./)+[^)\s#]+)(#[^)]*)?\)")


def _links_out(app: Any, page: str, source: list[str]) -> None:
    """Let links from pages to files beside docs/ lead to their page here or to the forge, or be plain text."""
    folder = (Path(app.srcdir) / page).parent
    docs = Path(app.srcdir).resolve()

    def written(found: re.Match[str]) -> str:
        text, path, anchor = found[1], found[2], found[3] or ""
        target = (folder / path).resolve()
        if target.is_relative_to(docs):
            return found[0]
        if not target.exists():
            raise FileNotFoundError(f"{page}: {path} leads nowhere")
        inside = target.relative_to(ROOT).as_posix()
        if inside in reference.AT_ROOT:
            return f"[{text}]({os.path.relpath(docs / 'generated' / reference.AT_ROOT[inside], folder)}{anchor})"
        return f"[{text}]({SOURCE_URL}/{inside})" if SOURCE_URL else text

    source[0] = _LINK_OUT.sub(written, source[0])


def _matching_globs(app: Any, page: str, source: list[str]) -> None:
    """Leave out of the first page's tables of contents the patterns that no page matches."""
    if page == "index":
        lines = source[0].splitlines(keepends=True)
        patterns = re.compile(r"[\w/-]+\*\n")
        root = Path(app.srcdir)
        source[0] = "".join(x for x in lines if not patterns.fullmatch(x) or any(root.glob(f"{x.strip()}.md")))


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("builder-inited", lambda app: reference.write(Path(app.srcdir) / "generated"))
    app.connect("source-read", _links_out)
    app.connect("source-read", _matching_globs)
