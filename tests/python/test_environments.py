"""Unusual environments work, or lead to a one-line error. They never lead to a traceback."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
from pathlib import Path

import pytest

import jupyter_dtf as dtf

SCRIPT = """
import jupyter_dtf as dtf

def words(_args, ctx):
    print("Grüße ✓")
    return "Grüße"

if __name__ == "__main__":
    with dtf.Cluster(jobs={"worker": 1}, name="strange") as cluster:
        run = cluster.run(words, name="Übung")
        print(ascii(run.result()[0]), run.status)
        print(cluster)
        run.show()
"""
ASCII = {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def start(*command: str, environment: dict[str, str | None] | None = None, **more: object) -> str:
    """Run Python with changes to its environment (None removes a variable). Return both streams and the exit status."""
    changed = {**os.environ, **(environment or {})}
    found = subprocess.run(
        [sys.executable, *command],
        env={name: value for name, value in changed.items() if value is not None},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=120,
        check=False,
        **more,  # type: ignore[call-overload]
    )
    text = found.stdout.decode("utf-8", "backslashreplace")
    assert "Traceback" not in text, text
    return f"{text}[{found.returncode}]"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "skript-ä" / "script.py"
    path.parent.mkdir()
    path.write_text(SCRIPT, encoding="utf-8")
    return path


def test_ascii_is_enough(script: Path) -> None:
    found = start(str(script), environment=dict(ASCII), cwd=script.parent)
    assert "'Gr\\xfc\\xdfe' succeeded\n<Cluster strange: running, local, 1 worker>\n" in found
    assert found.endswith("[0]")


def test_the_command_line_in_ascii(script: Path) -> None:
    found = start("-m", "jupyter_dtf", "run", "-n", "1", str(script.with_name("print.py")), environment=dict(ASCII))
    assert "cannot be read: No such file or directory" in found
    script.with_name("print.py").write_text("print('Grüße ✓')\n", encoding="utf-8")
    found = start("-m", "jupyter_dtf", "run", "-n", "1", str(script.with_name("print.py")), environment=dict(ASCII))
    assert re.search(r"worker:0 \| Gr.*\n\[0\]$", found)


@pytest.mark.parametrize("home", ["/proc/nobody", "file"])
def test_a_home_that_cannot_be_written_is_a_sentence(home: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()  # not a read-only directory, because root could write to it
    environment: dict[str, str | None] = {"HOME": str(tmp_path / home)}
    environment |= dict.fromkeys(
        ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DTF_DATA_DIR", "XDG_RUNTIME_DIR")
    )
    found = start("-m", "jupyter_dtf", "start", "--jobs", "worker=1", environment=environment)
    assert re.search(r"error: .*cannot be written to .*set JUPYTER_RUNTIME_DIR", found) and found.endswith("\n[1]")
    for command, answer in (("list", "There are no clusters."), ("runs", "There are no runs.")):
        assert answer in start("-m", "jupyter_dtf", command, environment=environment)


def test_no_home_at_all(script: Path) -> None:
    assert start(str(script), environment={"HOME": None}).endswith("[0]")


def test_python_m_is_the_command_line() -> None:
    assert start("-m", "jupyter_dtf", "--version") == f"jupyter_dtf {dtf.__version__}\n[0]"
    assert "usage: jupyter dtf" in start("-m", "jupyter_dtf", "nonsense")


@pytest.mark.parametrize("command", [["list"], ["runs"], ["--help"]], ids=" ".join)
@pytest.mark.parametrize("stdout", ["closed", "gone", "full"])
def test_an_output_that_nobody_reads(command: list[str], stdout: str) -> None:
    line = f"{sys.executable} -m jupyter_dtf {' '.join(command)}"
    line = {"closed": f"{line} >&-", "gone": f"{line} | :", "full": f"{line} >/dev/full"}[stdout]
    found = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in found.stderr
    assert "Exception ignored" not in found.stderr


def test_a_terminal_of_twenty_columns(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    ours, theirs = pty.openpty()
    import fcntl
    import struct
    import termios

    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 10, 20, 0, 0))
    with subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py")],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
    ) as process:
        os.close(theirs)
        seen = bytearray()
        while select.select([ours], [], [], 120)[0]:
            try:
                data = os.read(ours, 65536)
            except OSError:  # the process has ended
                break
            seen += data
    os.close(ours)
    text = seen.decode()
    assert process.returncode == 0, text
    assert "Traceback" not in text
    drawn = [line for line in re.split(r"\r\x1b\[K|\r\n", text) if line.startswith("Übung ")]
    assert drawn
    assert max(map(len, [line for line in drawn if "·" not in line])) <= 19
