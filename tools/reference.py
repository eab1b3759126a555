"""Generates pages of the documentation: commands, magics, settings and routes from the code, and pages from the files
at the root of the repository.

`docs/conf.py` writes them to `docs/generated` in every build; `python -m tools.reference DIRECTORY`, to any directory.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
AT_ROOT = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "SECURITY.md": "reporting.md"}
"""The names of the pages that are made from files at the repository's root, keyed by file."""
NAMED_KEYS = {"Accel": "Ctrl (Cmd on a Mac)"}


def pages() -> dict[str, str]:
    """Return the text of every page, keyed by file name."""
    made = {"commands.md": commands(), "magics.md": magics(), "settings.md": settings(), "routes.md": routes()}
    return made | {page: _from_root((ROOT / file).read_text()) for file, page in AT_ROOT.items()}


def write(directory: Path) -> None:
    """Write all pages. Files that would not change are not written, which makes the next build faster."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        path = directory / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


# -- commands and magics -------------------------------------------------------------------------------------------


def commands() -> str:
    """Return the page about the commands of ``jupyter dtf`` and their arguments."""
    from jupyter_dtf import cli

    parser = cli._parser()
    (found,) = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    intro = "Also `jupyter-dtf` or `python -m jupyter_dtf`. [The command line](../command-line.md) has examples."
    return _page("Command-line reference", intro, _parsers(parser, found.choices))


def magics() -> str:
    """Return the page about the magics ``%dtf`` and ``%%dtf`` and their arguments."""
    from IPython.core.interactiveshell import InteractiveShell

    from jupyter_dtf.notebook import magics as notebook

    line, on_line = notebook._line_parser(notebook.DtfMagics(InteractiveShell()))  # type: ignore[no-untyped-call]
    cell, on_cell = notebook._cell_parser()
    intro = "`%load_ext jupyter_dtf` loads the magics. [In a notebook](../notebook.md#magics) has examples."
    return _page("Magics reference", intro, [*_parsers(line, on_line), *_parsers(cell, on_cell)])


def _parsers(parser: argparse.ArgumentParser, choices: Mapping[str, argparse.ArgumentParser]) -> Iterator[str]:
    helps = {action.dest: action.help or "" for action in _pseudo_actions(parser)}
    for name, command in choices.items():
        yield f"## {parser.prog} {name}"
        yield _text(command.description or _sentence(helps.get(name, "")))
        yield f"```\n{_usage(command)}\n```"
        actions = [
            action for action in command._actions if action.help is not argparse.SUPPRESS and action.dest != "help"
        ]
        if actions:
            yield _table(("argument", ""), ((_spelled(action), _text(action.help or "")) for action in actions))


def _pseudo_actions(parser: argparse.ArgumentParser) -> Sequence[argparse.Action]:
    (found,) = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return found._choices_actions


def _usage(parser: argparse.ArgumentParser) -> str:
    formatter: Any = parser.formatter_class
    made = formatter(parser.prog, width=100)  # independent of the terminal in which the page is built
    made.add_usage(parser.usage, parser._actions, parser._mutually_exclusive_groups, prefix="")
    shown: str = made.format_help()
    return shown.strip()


def _spelled(action: argparse.Action) -> str:
    value = action.metavar or (action.dest.upper() if action.option_strings else action.dest)
    shown = " ".join(value) if isinstance(value, tuple) else value
    if not action.option_strings:
        return f"`{shown}`"
    takes = "" if action.nargs == 0 else f" {shown}"
    return ", ".join(f"`{option}{takes}`" for option in action.option_strings)


# -- settings ------------------------------------------------------------------------------------------------------


def settings() -> str:
    """Return the page about the server extension's traits, JupyterLab's settings and the keyboard shortcuts."""
    from jupyter_dtf.handlers.app import JupyterDTF

    own = [trait for trait in JupyterDTF.class_own_traits(config=True).values() if trait.this_class is JupyterDTF]
    server = (
        (f"`c.JupyterDTF.{trait.name}`", f"`{trait.default()!r}`", _text(trait.help))
        for trait in sorted(own, key=lambda trait: str(trait.name))
    )
    schema = json.loads((ROOT / "schema" / "settings.json").read_text())
    page = (
        (f"{entry['title']} (`{name}`)", f"`{json.dumps(entry['default'])}`", _setting(entry))
        for name, entry in schema["properties"].items()
    )
    shortcuts = (
        (" ".join(NAMED_KEYS.get(key, key) for key in entry["keys"][0].split()), f"`{entry['command']}`")
        for entry in schema["jupyter.lab.shortcuts"]
    )
    intro = "[Environment variables](../reference/environment.md) are described on a separate page."
    parts = [
        "## The Jupyter server",
        "In `jupyter_server_config.py`, or on the command line as `--JupyterDTF.keep_runs=100`.",
        _table(("setting", "default", ""), server),
        "## JupyterLab",
        f"In the settings editor under *{schema['title']}*, or in `overrides.json` under `jupyter_dtf:settings`.",
        _table(("setting", "default", ""), page),
        "## Keyboard shortcuts",
        _table(("keys", "command"), shortcuts),
    ]
    return _page("Settings reference", intro, parts)


def _setting(entry: Mapping[str, Any]) -> str:
    parts = [entry["description"]]
    if "oneOf" in entry:
        parts.append("One of " + ", ".join(f"`{each['const']}` ({each['title']})" for each in entry["oneOf"]) + ".")
    if "minimum" in entry:
        most = f" to {entry['maximum']}" if "maximum" in entry else " or more"
        parts.append(f"{entry['minimum']}{most}.")
    return _text(" ".join(parts))


# -- routes --------------------------------------------------------------------------------------------------------


def routes() -> str:
    """Return the page about the routes below ``/jupyter-dtf/api/``, from openapi.json."""
    api = json.loads((ROOT / "jupyter_dtf" / "handlers" / "openapi.json").read_text())
    intro = (
        "Generated from `openapi.json` in the package's folder `handlers`, which also has the schemas of the bodies. "
        "[The Jupyter server's side](../server.md) describes the access rights and the socket's messages."
    )
    return _page("REST reference", intro, _operations(api["paths"]))


def _operations(paths: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for path, methods in paths.items():
        yield f"## {path.removeprefix('/jupyter-dtf/api')}"
        shared = methods.get("parameters", [])
        for method, operation in methods.items():
            if method == "parameters":
                continue
            yield f"**{method.upper()}**: {_text(operation.get('summary', ''))}."
            queries = [each for each in [*shared, *operation.get("parameters", [])] if each["in"] == "query"]
            if queries:
                rows = ((f"`{each['name']}`", _text(each.get("description", ""))) for each in queries)
                yield _table(("parameter", ""), rows)
            body = _names_in(operation.get("requestBody", {}))
            answers = ", ".join(
                f"{status}{f' (`{name}`)' if (name := _names_in(answer)) else ''}"
                for status, answer in operation.get("responses", {}).items()
            )
            yield (f"Body: `{body}`. " if body else "") + f"Responses: {answers}."


def _names_in(described: Mapping[str, Any]) -> str:
    """Return the name of a body's schema or, if it has none, its media type; empty if there is no body."""
    for media, entry in described.get("content", {}).items():
        found = re.search(r'"#/components/schemas/([^"]+)"', json.dumps(entry))
        return found[1] if found else str(media)
    return ""


# -- files at the root ---------------------------------------------------------------------------------------------


def _from_root(text: str) -> str:
    """Convert the text of a Markdown file at the repository's root to a page in a folder of ``docs``."""

    def moved(found: re.Match[str]) -> str:
        path, anchor = found[1], found[2] or ""
        if path in AT_ROOT:
            return f"]({AT_ROOT[path]}{anchor})"
        return f"](../{path.removeprefix('docs/')}{anchor})" if path.startswith("docs/") else f"](../../{path}{anchor})"

    return re.sub(r"\]\((?![a-z]+:|#)([^)\s#]+)(#[^)]*)?\)", moved, text)


# -- Markdown ------------------------------------------------------------------------------------------------------


def _page(title: str, intro: str, parts: Iterable[str]) -> str:
    return "\n\n".join([f"# {title}", intro, *parts]) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)])


def _text(text: str) -> str:
    """Convert plain text to Markdown on one line."""
    return re.sub(r"([*<])", r"\\\1", " ".join(text.split()))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


if __name__ == "__main__":
    write(Path(sys.argv[1]))
