"""How long a test waits: until what it waits for has come, or until its own limit is near.

No test has a clock of its own, so a slow machine makes a test slow and nothing else. Every wait is given ``left_s()``:
it ends a little before pytest-timeout would end the test, and so can still say what it has waited for.
"""

from __future__ import annotations

import time
from collections.abc import Callable

LIMIT_S = 600.0
"""Where no test runs."""
TO_SAY_S = 15.0
"""What is left for saying what has not come, and for ending what the test has started."""
LOOK_EVERY_S = 0.01

_ends = 0.0


def begin(limit_s: float) -> None:
    """A test with this limit begins."""
    global _ends
    _ends = time.monotonic() + limit_s


def left_s() -> float:
    """How long the test may still wait, in seconds."""
    return max(_ends - time.monotonic() - TO_SAY_S, 1.0) if _ends else LIMIT_S


def until(condition: Callable[[], object], what: Callable[[], object] | str) -> None:
    """Return when the condition is true. For what tells nobody when it happens: other processes, files.

    Raises an AssertionError with ``what`` when there is no time left.
    """
    ends = time.monotonic() + left_s()
    while not condition():
        assert time.monotonic() < ends, f"never came: {what if isinstance(what, str) else what()}"
        time.sleep(LOOK_EVERY_S)
