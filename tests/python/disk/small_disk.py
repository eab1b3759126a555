"""Programs in a separate mount namespace, in which directories are small disks. This does not require root."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from .. import lacking
from ..patience import left_s

_ENTER = ("unshare", "--user", "--map-root-user", "--mount")


@cache
def _why_not() -> str:
    try:
        done = subprocess.run(
            [*_ENTER, "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", "/mnt"],
            capture_output=True,
            text=True,
            check=False,
            timeout=left_s(),
        )
    except OSError as error:
        return str(error)
    return done.stderr.strip() if done.returncode else ""


def run_on_small_disks(script: str, disks: dict[Path, str], *arguments: str) -> str:
    """Run a program with a tmpfs of the given size at each path (``{path: "600k"}``). Return what it printed.

    The program may change the sizes with ``mount -o remount,size=...``. Skips the test if no namespace can be created.
    """
    if why := _why_not():
        lacking.skip(f"no mount namespace is to be had here: {why}")
    mounts = " && ".join(f"mount -t tmpfs -o {options} tmpfs '{path}'" for path, options in disks.items())
    command = [*_ENTER, "sh", "-c", f'{mounts} && exec "$@"', "sh", sys.executable, "-c", script, *arguments]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=left_s(),
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout
