"""Run all test suites, even if some fail, and print a summary: tools/test.py [--all] [SUITE...].

The first suite prints to the terminal. The others run at the same time, one after another, and are reported when they
have ended: in one line if they passed, with their whole output if they failed. The suites share a temporary directory,
which is removed at the end. Tests marked ``extended`` run only with ``--all``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

SUITES = {
    # As many test files run at a time as there are cores, but at least two and at most four, the longest first. With
    # one more, some tests would wait for a core for longer than their time limits allow.
    "python": [
        sys.executable,
        "-m",
        "pytest",
        "tests/python",
        "-n",
        str(min(4, max(2, os.cpu_count() or 1))),
        "--dist",
        "loadfile",
        "--no-loadscope-reorder",
    ],
    "typescript": ["npm", "test", "--silent"],
    "browser": ["npx", "playwright", "test", "-c", "tests/ui"],
}
Result = tuple[str, int, float]
"""A suite's name, its exit status and the seconds it took."""


def run(name: str, environment: dict[str, str], output: IO[Any] | None = None) -> Result:
    """Run a suite. Its output is written to ``output`` or, by default, to this program's output."""
    started = time.monotonic()
    errors = None if output is None else subprocess.STDOUT
    done = subprocess.run(
        SUITES[name], stdin=subprocess.DEVNULL, stdout=output, stderr=errors, env=environment, check=False
    )
    return name, done.returncode, time.monotonic() - started


def run_beside(names: list[str], environment: dict[str, str]) -> list[Result]:
    """Run suites one after another, and print the result of each."""
    results = []
    for name in names:
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            result = run(name, environment, output)
            results.append(result)
            output.seek(0)
            print(f"\n== {line(result)}" + (f"\n{output.read()}" if result[1] else ""), flush=True)
    return results


def line(result: Result) -> str:
    name, status, seconds = result
    return f"{name:<12} {'passed' if status == 0 else f'FAILED ({status})':<12} {seconds:7.1f} s"


def main(arguments: list[str]) -> int:
    """Return the exit status: 0 if every suite passed, 1 if one failed, 2 if a suite does not exist."""
    names = [argument for argument in arguments if argument != "--all"]
    unknown = sorted(set(names) - set(SUITES))
    if unknown:
        print(f"A suite must be one of {', '.join(SUITES)}, got {' '.join(unknown)}", file=sys.stderr)
        return 2
    first, *others = names or SUITES
    # pytest keeps the directories of its last runs outside of the suites' directory, so that they can be inspected.
    environment = {"PYTEST_DEBUG_TEMPROOT": tempfile.gettempdir(), **os.environ}
    if "--all" not in arguments:
        environment["PYTEST_ADDOPTS"] = f"{environment.get('PYTEST_ADDOPTS', '')} -m 'not extended'"
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # some container images set it; tests start many processes
    with tempfile.TemporaryDirectory(prefix="dtf-test-", ignore_cleanup_errors=True) as directory:
        environment["TMPDIR"] = directory
        print(f"== {first}" + (f", and at the same time {', '.join(others)}" if others else ""), flush=True)
        with ThreadPoolExecutor(1) as beside:
            rest = beside.submit(run_beside, others, environment)
            results = [run(first, environment), *rest.result()]
    print("\n== summary")
    print("\n".join(map(line, results)))
    return 1 if any(status for _, status, _ in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
