"""Every file that the documentation names exists."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]

ELSEWHERE = {
    "jupyter_dtf/_version.py": "made by the build",
    "manifest.json": "in every checkpoint",
    "msgspec.json": "a module of msgspec's",
    "numpy.py": "somebody's own, beside a notebook",
}


def test_every_file_that_is_named_is_there() -> None:
    files = {path for path in _tracked() if (ROOT / path).exists()}
    ends = {"/".join(parts[begin:]) for parts in (path.split("/") for path in files) for begin in range(len(parts))}
    missing = []
    for page in sorted(path for path in files if re.fullmatch(r"(docs/.+|[^/]+)\.md", path)):
        for number, line in enumerate((ROOT / page).read_text().splitlines(), start=1):
            named = re.findall(r"`([\w./-]+\.(?:py|ts|tsx|css|json|toml|ipynb))`", line)
            missing += [f"{page}:{number}: {name}" for name in named if name not in ends and not _elsewhere(page, name)]
    assert not missing


def _tracked() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return listed.stdout.splitlines()


def _elsewhere(page: str, name: str) -> bool:
    of_horovod = page == "docs/horovod.md" and name.startswith("test_")
    return name in ELSEWHERE or of_horovod or page == "CHANGELOG.md"  # files of the past may no longer exist
