"""Make the README's links absolute: python tools/pypi_readme.py REPOSITORY_URL TAG.

PyPI shows the README without the files next to it, so a release is built from a README that links to the repository.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"
_LINK = re.compile(r"(!?)\[((?:[^][]|\[[^]]*\])*)\]\(([^)\s]+)\)")


def with_absolute_links(text: str, repository: str, tag: str) -> str:
    """Return the Markdown text with relative links replaced by links to the files of ``tag`` in the repository."""

    def absolute(link: re.Match[str]) -> str:
        picture, words, target = link.groups()
        words = _LINK.sub(absolute, words)  # a badge is a picture in a link
        if not re.match(r"[a-z]+:|#", target):
            target = f"{repository}/{'raw' if picture else 'blob'}/{tag}/{target}"
        return f"{picture}[{words}]({target})"

    return _LINK.sub(absolute, text)


if __name__ == "__main__":
    README.write_text(with_absolute_links(README.read_text(), *sys.argv[1:]))
