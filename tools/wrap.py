"""Wrap the prose of Markdown files: ``python -m tools.wrap FILE...``; without files, those of the repository.

Paragraphs and list items are wrapped to lines of fewer than 120 characters. Code, tables, headings and HTML do not
change. The meaning of the text does not change, either: code spans are not broken, and no line begins with a word that
would start a list, a heading or a table.
"""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

WIDTH = 119

_FENCE = re.compile(r"\s*(`{3,}|~{3,}|:{3,})")
_ITEM = re.compile(r"(\s*)((?:[*+-]|\d+[.)]) +)(?=\S)")
_ALONE = re.compile(r"\s*(\||#{1,6} |<|>|\(\S+\)=$|---+$|\[!\[|!\[|:\w|\[[^\]]+\]: )")
"""Lines that are blocks of their own, or parts of blocks that are not wrapped."""
_BEGINS = re.compile(r"(?:[*+-]|\d+[.)]|#{1,6}|>.*|\|.*|=+|-+|:{3,}.*|`{3,}.*|~{3,}.*)")
"""Words that would have a special meaning at the beginning of a line."""
_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
_HELD = "\0"


def wrapped(text: str) -> str:
    """Return the text of a Markdown file with its prose wrapped."""
    lines: list[str] = []
    paragraph: list[str] = []
    fence = ""

    def flush() -> None:
        if paragraph:
            lines.extend(_wrapped_paragraph(paragraph))
            paragraph.clear()

    for line in text.splitlines():
        marker = _FENCE.match(line)
        if fence:
            lines.append(line)
            if marker and marker[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif marker:
            flush()
            lines.append(line)
            fence = "" if marker[1][0] == ":" else marker[1]  # the contents of a colon fence are Markdown
        elif not line.strip() or _ALONE.match(line):
            flush()
            lines.append(line)
        elif _ITEM.match(line):
            flush()
            paragraph.append(line)
        else:
            paragraph.append(line)
    flush()
    return "\n".join(lines) + "\n"


def _wrapped_paragraph(lines: list[str]) -> list[str]:
    if any(line.endswith(("  ", "\\")) for line in lines):  # intentional line breaks
        return lines
    item = _ITEM.match(lines[0])
    first = item[0] if item else re.match(r"\s*", lines[0])[0]  # type: ignore[index]
    rest = re.match(r"\s*", lines[1])[0] if len(lines) > 1 else " " * len(first)  # type: ignore[index]
    words = " ".join([lines[0][len(first) :].strip(), *(line.strip() for line in lines[1:])])
    words = _SPAN.sub(lambda found: found[0].replace(" ", _HELD), words)
    # A word that must not begin a line is joined to the word before it.
    held = re.sub(rf" (?={_BEGINS.pattern}(?: |$))", _HELD, words)
    made = textwrap.wrap(
        held, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )
    return [line.replace(_HELD, " ") for line in made]


def _tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "*.md"], stdout=subprocess.PIPE, text=True, check=True)
    return [Path(line) for line in listed.stdout.splitlines() if not line.startswith((".github/", "tests/"))]


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]) if sys.argv[1:] else _tracked():
        before = path.read_text()
        if (after := wrapped(before)) != before:
            path.write_text(after)
            print(path)
