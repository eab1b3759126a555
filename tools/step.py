"""Run a command quietly: ``python -m tools.step TEXT COMMAND...``.

TEXT and the time that the command takes are printed. The output of the command is printed only if it fails.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from typing import IO

EVERY_S = 15.0


def run(text: str, command: list[str], *, environment: dict[str, str] | None = None, pass_on: str = "") -> int:
    """Run a command, and return its exit status. Print output lines that begin with a word in ``pass_on``."""
    started = time.monotonic()
    say(text)
    title = text.partition(" (")[0]
    with (
        tempfile.TemporaryFile("w+") as output,
        subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process,
    ):
        assert process.stdout is not None
        reader = threading.Thread(target=_read, args=(process.stdout, output, tuple(pass_on.split())))
        reader.start()
        status = None
        while status is None:
            try:
                status = process.wait(EVERY_S)
            except subprocess.TimeoutExpired:
                say(f"  {title}: {time.monotonic() - started:.0f} s so far")
        reader.join()
        if status:
            output.seek(0)
            say(f"{title} has failed, with status {status}:\n{output.read()}")
        else:
            say(f"  {title}: {time.monotonic() - started:.0f} s")
    return status


def _read(lines: IO[str], output: IO[str], words: tuple[str, ...]) -> None:
    for line in lines:
        output.write(line)
        if words and line.split(" ", 1)[0] in words:
            say(f"  {line.rstrip()}")


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:]))
