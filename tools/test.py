"""Run the test suites, whatever fails, and end with a summary: tools/test.py [--all] [SUITE...].

The first one has the terminal. The others run beside it, one after another, and are heard of when they have ended: in a
line if they passed, in full if not. What any of them leaves in the temporary directory goes with it. Tests marked
``extended`` run with ``--all`` only.
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
    # As many files of tests run at a time as there are cores, four at most, and the longest first. With one
    # more, some waited for a core for longer than their limits allow.
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
    """Run a suite; its output goes to ``output``, or to this program's."""
    started = time.monotonic()
    errors = None if output is None else subprocess.STDOUT
    done = subprocess.run(
        SUITES[name], stdin=subprocess.DEVNULL, stdout=output, stderr=errors, env=environment, check=False
    )
    return name, done.returncode, time.monotonic() - started


def run_beside(names: list[str], environment: dict[str, str]) -> list[Result]:
    """Run suites one after another, and say of each what became of it."""
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
    """Exit status 0 when every suite passed, 1 when one failed, 2 for a suite that does not exist."""
    names = [argument for argument in arguments if argument != "--all"]
    unknown = sorted(set(names) - set(SUITES))
    if unknown:
        print(f"A suite must be one of {', '.join(SUITES)}, got {' '.join(unknown)}", file=sys.stderr)
        return 2
    first, *others = names or SUITES
    # Where pytest keeps the directories of the last runs stays, to be looked at.
    environment = {"PYTEST_DEBUG_TEMPROOT": tempfile.gettempdir(), **os.environ}
    if "--all" not in arguments:
        environment["PYTEST_ADDOPTS"] = f"{environment.get('PYTEST_ADDOPTS', '')} -m 'not extended'"
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # of an image: tests start hundreds of processes
    with tempfile.TemporaryDirectory(prefix="dtf-test-", ignore_cleanup_errors=True) as directory:
        environment["TMPDIR"] = directory
        print(f"== {first}" + (f", and beside it {', '.join(others)}" if others else ""), flush=True)
        with ThreadPoolExecutor(1) as beside:
            rest = beside.submit(run_beside, others, environment)
            results = [run(first, environment), *rest.result()]
    print("\n== summary")
    print("\n".join(map(line, results)))
    return 1 if any(status for _, status, _ in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
