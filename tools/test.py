"""Run the test suites one after another, whatever fails, and end with a summary: tools/test.py [SUITE...]."""

from __future__ import annotations

import os
import subprocess
import sys
import time

SUITES = {
    "python": [sys.executable, "-m", "pytest", "tests/python"],
    "typescript": ["npm", "test", "--silent"],
    "browser": ["npx", "playwright", "test", "-c", "tests/ui"],
}


def main(names: list[str]) -> int:
    """Exit status 0 when every suite passed, 1 when one failed, 2 for a suite that does not exist."""
    unknown = sorted(set(names) - set(SUITES))
    if unknown:
        print(f"A suite is one of {', '.join(SUITES)}. Received: {' '.join(unknown)}", file=sys.stderr)
        return 2
    results = []
    for name in names or SUITES:
        print(f"\n== {name}: {' '.join(SUITES[name])}", flush=True)
        started = time.monotonic()
        status = subprocess.run(SUITES[name], stdin=subprocess.DEVNULL, env=os.environ, check=False).returncode
        results.append((name, status, time.monotonic() - started))
    print("\n== summary")
    for name, status, seconds in results:
        print(f"{name:<12} {'passed' if status == 0 else f'FAILED ({status})':<12} {seconds:7.1f} s")
    return 1 if any(status for _, status, _ in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
