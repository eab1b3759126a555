"""Tests of memory that is freed and allocated again, in separate processes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from jupyter_dtf.backend.task.allocator import keep_freed_memory

BLOCKS = """
import resource, sys, threading
import numpy as np
from jupyter_dtf.backend.task.allocator import keep_freed_memory

if sys.argv[1] == "kept":
    assert keep_freed_memory()
faults = []

def steps():
    for _ in range(10):
        blocks = [np.ones(6 << 20, np.uint8) for _ in range(20)]  # more than one heap of a thread holds
        while blocks:
            blocks.pop()
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)

thread = threading.Thread(target=steps)
thread.start()
thread.join()
print(faults[-1] - faults[4])
"""


def faults_of(how: str) -> int:
    """Return the number of page faults in five steps, after five earlier ones."""
    command = [sys.executable, "-c", BLOCKS, how]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the settings are glibc's")
def test_a_step_finds_the_memory_of_the_one_before() -> None:
    """The counts are only compared with each other, because there are fewer faults if the system uses large pages."""
    assert faults_of("kept") < faults_of("as it is") // 10


def test_another_c_library_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    assert not keep_freed_memory()
