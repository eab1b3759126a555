"""Detection of processes killed for lack of memory, from simulated kernel files and from the real kernel."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_dtf.backend.machine.oom import OomWatch

MIB = 1 << 20


def write(root: Path, path: str, text: str) -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_the_counter_of_a_control_group_of_version_2(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "0::/user/job\n")
    events = write(tmp_path, "sys/fs/cgroup/user/job/memory.events", "low 0\nhigh 0\noom 1\noom_kill 1\n")
    write(tmp_path, "sys/fs/cgroup/user/job/memory.max", "max\n")
    write(tmp_path, "sys/fs/cgroup/user/memory.max", f"{4 << 30}\n")
    watch = OomWatch(tmp_path)
    assert watch.explain(1) == ""
    events.write_text("low 0\noom 2\noom_kill 2\n")
    assert watch.explain(1) == "by the kernel, because its control group (limit 4 GiB) ran out of memory"
    assert watch.explain(2) == ""  # one kill explains one process


def test_the_counter_of_a_control_group_of_version_1(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "5:cpu:/\n4:memory:/job\n0::/\n")
    control = write(tmp_path, "sys/fs/cgroup/memory/job/memory.oom_control", "under_oom 0\noom_kill 0\n")
    write(tmp_path, "sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n")
    watch = OomWatch(tmp_path)
    control.write_text("under_oom 0\noom_kill 1\n")
    assert watch.explain(7) == "by the kernel, because the machine ran out of memory"


def test_the_kernels_log_names_the_process(tmp_path: Path) -> None:
    log = write(tmp_path, "dev/kmsg", "3,1,1,-;Out of memory: Killed process 41 (python) total-vm:1kB\n")
    write(tmp_path, "proc/vmstat", "oom_kill 0\n")
    watch = OomWatch(tmp_path)
    with log.open("a") as file:
        file.write("3,2,2,-;Memory cgroup out of memory: Killed process 42 (python) total-vm:1kB\n")
    assert watch.explain(41) == ""  # an old message, about another process with this id
    assert watch.explain(42) == "by the kernel, because the machine ran out of memory"
    assert watch.explain(42) == ""
    watch.close()


def test_nothing_is_known_where_there_is_nothing_to_read(tmp_path: Path) -> None:
    assert OomWatch(tmp_path).explain(1) == ""


@pytest.fixture
def group(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A real control group with 64 MiB."""
    for parent, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        path = Path(parent) / f"dtf-test-{os.getpid()}"
        try:
            path.mkdir()
        except OSError:
            continue
        try:
            (path / limit).write_text(str(64 * MIB))
            with contextlib.suppress(OSError):
                (path / "memory.swap.max").write_text("0")
            yield path
            return
        except OSError:
            continue
        finally:
            path.rmdir()
    pytest.skip("control groups cannot be made here")


WATCHER = """
import os, sys
from pathlib import Path
Path(sys.argv[1], "cgroup.procs").write_text(str(os.getpid()))
from jupyter_dtf.backend.machine.oom import OomWatch
watch = OomWatch()
def fork(work):
    pid = os.fork()
    if pid == 0:
        work()
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    return f"{status} {watch.explain(pid)}"
print(fork(lambda: os.kill(os.getpid(), 9)))
print(fork(lambda: bytearray(b"x") * (256 << 20)))
"""


def test_the_kernel_ends_a_real_process(group: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", WATCHER, str(group)], check=True, capture_output=True, text=True)
    killed, starved = ended.stdout.splitlines()
    assert killed == f"{int(signal.SIGKILL)} "
    assert (
        starved
        == f"{int(signal.SIGKILL)} by the kernel, because its control group (limit 0.0625 GiB) ran out of memory"
    )
