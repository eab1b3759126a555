"""Reuses an existing build of the lab extension, so that Node is not needed.

``extension.py stamp`` records in the build which sources it was made from. ``extension.py find [WHEEL...]`` succeeds if
the build was made from the current sources, or if one of the wheels has such a build, which is then unpacked.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).absolute().parent.parent
BUILD = ROOT / "jupyter_dtf/labextension"
STAMP = "sources.json"
IN_WHEEL = ".data/data/share/jupyter/labextensions/jupyter_dtf/"
NOT_BUILT = "install.json"
"""A file that is next to the build in a wheel, but not part of it."""


def digest() -> str:
    """Return a digest of everything that the build is made from, including the locked versions of its packages."""
    names = ["package-lock.json", "package.json", "tsconfig.json"]
    for directory in ("schema", "src", "style"):
        names += [path.relative_to(ROOT).as_posix() for path in (ROOT / directory).rglob("*") if path.is_file()]
    whole = hashlib.sha256()
    for name in sorted(names):
        whole.update(f"{name} {hashlib.sha256((ROOT / name).read_bytes()).hexdigest()}\n".encode())
    return whole.hexdigest()


def stamp() -> None:
    (BUILD / STAMP).write_text(json.dumps({"sha256": digest()}) + "\n")


def is_built() -> bool:
    """Return whether there is a build of the current sources."""
    try:
        return (BUILD / "package.json").is_file() and json.loads((BUILD / STAMP).read_text())["sha256"] == digest()
    except (OSError, ValueError, KeyError):
        return False


def unpack(path: Path) -> bool:
    """Unpack the build in a wheel if it was built from the current sources. Return whether it was."""
    try:
        with zipfile.ZipFile(path) as wheel:
            names = {name.partition(IN_WHEEL)[2]: name for name in wheel.namelist() if IN_WHEEL in name}
            if json.loads(wheel.read(names[STAMP]))["sha256"] != digest():
                return False
            shutil.rmtree(BUILD, ignore_errors=True)
            for name, within in names.items():
                target = BUILD / name
                outside = not target.resolve().is_relative_to(BUILD.resolve())
                if name and name != NOT_BUILT and not name.endswith("/") and not outside:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(wheel.read(within))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        return False
    return True


def main(what: str, wheels: list[str]) -> int:
    """Run the command ``what``, and return the exit status."""
    if what == "stamp":
        stamp()
        return 0
    if is_built():
        return 0
    for wheel in wheels:
        if unpack(Path(wheel)):
            print(f"Using the lab extension in {wheel}", flush=True)
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
