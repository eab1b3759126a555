"""A substitute for Slurm's commands: a job is a process group on this machine, and a queue is a directory.

``sbatch``, ``squeue`` and ``scancel`` are copies of this file. The directory is in the environment (``STANDIN_SLURM``).
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

QUEUES = ("", "short")


def sbatch(script: str) -> int:
    text = Path(script).read_text()
    asked = dict(re.findall(r"^#SBATCH (-\w|--[\w-]+)[ =](.*)$", text, re.MULTILINE))
    if asked.get("-p", "") not in QUEUES:
        with open(there / "refused", "a") as file:
            print(script, file=file)
        print(f"sbatch: error: invalid partition specified: {asked['-p']}", file=sys.stderr)
        print("sbatch: error: Batch job submission failed: Invalid partition name specified", file=sys.stderr)
        return 1
    number = len(list(there.glob("*.sh"))) + 1
    while True:
        try:
            copy = os.open(there / f"{number}.sh", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700)
            break
        except FileExistsError:
            number += 1
    os.write(copy, text.encode())
    os.close(copy)
    with (
        open(asked["-o"].replace("%J", str(number)), "w") as out,
        open(asked["-e"].replace("%J", str(number)), "w") as err,
    ):
        job = subprocess.Popen(
            ["/bin/bash", there / f"{number}.sh"],
            start_new_session=True,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
        )
    (there / f"{number}.pid").write_text(str(job.pid))
    (there / f"{number}.err").symlink_to(asked["-e"].replace("%J", str(number)))
    print(f"Submitted batch job {number}")
    return 0


def alive(number: str) -> bool:
    try:
        os.killpg(int((there / f"{number}.pid").read_text()), 0)
    except (OSError, ValueError):
        return False
    return True


def squeue(*flags: str) -> int:
    number = flags[-1]
    if not (there / f"{number}.sh").exists():
        print("slurm_load_jobs error: Invalid job id specified", file=sys.stderr)
        return 1
    if alive(number):
        print("RUNNING")
    return 0


def scancel(number: str, reason: str = "") -> int:
    """Cancel a job. ``reason``, for example an exceeded walltime, is written to the job's error output."""
    if reason:
        with open(there / f"{number}.err", "a") as file:
            print(
                f"slurmstepd: error: *** JOB {number} ON node1 CANCELLED AT 2026-01-01T00:00:00 {reason} ***", file=file
            )
    if alive(number):
        os.killpg(int((there / f"{number}.pid").read_text()), signal.SIGTERM)
    return 0


if __name__ == "__main__":
    there = Path(os.environ["STANDIN_SLURM"])
    commands: dict[str, Callable[..., int]] = {"sbatch": sbatch, "squeue": squeue, "scancel": scancel}
    sys.exit(commands[Path(sys.argv[0]).name](*sys.argv[1:]))
