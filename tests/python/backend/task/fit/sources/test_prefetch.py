"""Tests of the end of the processes that compute ahead."""

from __future__ import annotations

import subprocess
import sys

from .....patience import left_s

READS = """
import os, signal, sys
from jupyter_dtf.backend.task.fit.sources.prefetch import Ahead
reading = Ahead(lambda key: os.getpid(), range(100), workers=2, bound=2, begin=lambda worker: None)
taken = iter(reading)
assert os.getpid() not in {next(taken), next(taken)}
print("reading", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_no_process_stays_when_the_one_that_reads_is_killed() -> None:
    """Its output ends only when no process holds it any more, including the processes that it has started."""
    done = subprocess.run(
        [sys.executable, "-c", READS], stdout=subprocess.PIPE, text=True, timeout=left_s(), check=False
    )
    assert (done.stdout, done.returncode) == ("reading\n", -9)
