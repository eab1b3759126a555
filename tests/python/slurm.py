"""A substitute for Slurm in tests: stand-ins for its commands, which run jobs on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

STANDIN = Path(__file__).parent / "backend" / "kinds" / "slurm_standin" / "slurm.py"
COMMANDS = ("sbatch", "squeue", "scancel")


def install(directory: Path, commands: tuple[str, ...] = COMMANDS) -> dict[str, str]:
    """Put the commands and a queue for jobs (``queue``) into a directory. Return the environment variables that they
    need.
    """
    there, programs = directory / "queue", directory / "bin"
    there.mkdir()
    programs.mkdir()
    for name in commands:
        program = programs / name
        program.write_text(f"#!{sys.executable}\n{STANDIN.read_text()}")
        program.chmod(0o755)
    return {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "STANDIN_SLURM": str(there)}


def running(there: Path) -> list[str]:
    """Return the jobs in a queue that have a running process. The commands must be on the path."""
    jobs = [path.stem for path in there.glob("*.sh")]
    return [job for job in jobs if subprocess.run(["squeue", job], capture_output=True, check=True).stdout]
