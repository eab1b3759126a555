"""Tests of what a confined process can still do, in a separate process."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from ....patience import left_s

PROGRAM = """
import ctypes, json, os, signal, socket, subprocess, sys, threading
from jupyter_dtf.backend.task.describe.confined import confine

directory = sys.argv[1]
there = os.path.join(directory, "there")
kept = open(there)
go, found = threading.Event(), {}

def tried(name, action):
    try:
        action()
        found[name] = "done"
    except (OSError, MemoryError) as error:
        found[name] = type(error).__name__

def elsewhere():
    go.wait()
    tried("a thread from before", lambda: open(os.path.join(directory, "thread"), "w"))

thread = threading.Thread(target=elsewhere)
thread.start()
holds = confine(memory_bytes=1 << 30, cpu_s=60)
go.set()
thread.join()
new = os.path.join(directory, "new")
tried("write", lambda: open(new, "w"))
tried("append", lambda: open(there, "a"))
tried("mkdir", lambda: os.mkdir(new))
tried("unlink", lambda: os.unlink(there))
tried("rename", lambda: os.rename(there, new))
tried("link", lambda: os.link(there, new))
tried("symlink", lambda: os.symlink(there, new))
tried("chmod", lambda: os.chmod(there, 0o777))
tried("fchmod", lambda: os.fchmod(kept.fileno(), 0o777))
tried("utime", lambda: os.utime(there))
tried("truncate", lambda: os.truncate(there, 0))
tried("mkfifo", lambda: os.mkfifo(new))
tried("socket", lambda: socket.socket())
tried("unix socket", lambda: socket.socket(socket.AF_UNIX))
tried("program", lambda: subprocess.run(["true"]))
tried("fork", os.fork)
tried("exec", lambda: os.execv("/bin/true", ["true"]))
tried("signal", lambda: os.kill(os.getppid(), 0))
tried("memory", lambda: bytearray(2 << 30))
tried("read", lambda: open(there).read())
tried("thread", lambda: threading.Thread(target=int).start())
print(json.dumps({"holds": holds, "found": found}))
"""


@pytest.mark.skipif(
    platform.system() != "Linux" or platform.machine() not in ("x86_64", "aarch64"), reason="the filter is for these"
)
def test_it_reads_and_computes_and_does_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("as it was")
    (tmp_path / "there").chmod(0o640)
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=left_s())
    answer = json.loads(done.stdout)
    assert {"limits", "seccomp"} <= set(answer["holds"])
    found = answer["found"]
    assert found.pop("read") == "done" and found.pop("thread") == "done" and found.pop("memory") == "MemoryError"
    assert set(found.values()) == {"PermissionError"}, found
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
    assert (tmp_path / "there").read_text() == "as it was" and (tmp_path / "there").stat().st_mode & 0o777 == 0o640
