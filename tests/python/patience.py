"""Waiting in tests: until a condition holds, or until the test's time limit is near.

No wait has a timeout of its own, so a slow machine makes a test slow, but does not make it fail. Every wait uses
``left_s()`` as its timeout, which ends shortly before pytest-timeout would end the test. The test can therefore still
report what it was waiting for.
"""

from __future__ import annotations

import time
from collections.abc import Callable

LIMIT_S = 600.0
"""The longest wait outside of tests."""
TO_SAY_S = 15.0
"""The time that is reserved for reporting what did not happen, and for ending what the test has started."""
LOOK_EVERY_S = 0.01

_ends = 0.0


def begin(limit_s: float) -> None:
    """Record that a test with this time limit begins."""
    global _ends
    _ends = time.monotonic() + limit_s


def left_s() -> float:
    """Return how long the test may still wait, in seconds."""
    return max(_ends - time.monotonic() - TO_SAY_S, 1.0) if _ends else LIMIT_S


def until(condition: Callable[[], object], what: Callable[[], object] | str) -> None:
    """Wait until the condition is true, by polling it. For changes that nothing announces: those of other processes and
    of files.

    Raises an AssertionError that contains ``what`` if no time is left.
    """
    ends = time.monotonic() + left_s()
    while not condition():
        assert time.monotonic() < ends, f"never came: {what if isinstance(what, str) else what()}"
        time.sleep(LOOK_EVERY_S)
