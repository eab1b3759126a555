"""What every cell of the matrix has to be. A cell that is not named here has to be equal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from .rows import Differs, Equal, Expected, Refused
from .running import STRATEGIES

ALL = STRATEGIES
TASKS = ("allreduce", "ps")
SHARES = ("allreduce", "ps", "mirrored")

RANDOM = "Random numbers are each task's own: the chief draws what one process would, the others draw others."
MICROBATCHES = "Random numbers are drawn for each microbatch in turn."
STATISTICS = "Batch statistics are those of a task's share, or of a microbatch."


class Rule(NamedTuple):
    """``rows``: a regular expression for ``kind: row``."""

    rows: str
    strategies: Sequence[str]
    expected: Expected


RULES: list[Rule] = []


def expected(kind: str, row: str, strategy: str, tolerance: float) -> Expected:
    """What a cell has to be; the first rule counts that speaks of it."""
    for rule in RULES:
        if strategy in rule.strategies and re.fullmatch(rule.rows, f"{kind}: {row}"):
            return rule.expected
    return Equal(tolerance)


def verdict(expected: Expected, error: str, refusal: str, apart: float, what: str) -> str:
    """What is wrong with a cell; empty if nothing is."""
    if error:
        return f"failed: {error}"
    match expected:
        case Refused() as refused:
            if not refusal:
                return f"was to be refused ({refused.text!r}), and was trained"
            return "" if refused.text in refusal else f"was to be refused with {refused.text!r}, got: {refusal}"
        case Differs() as differs if not refusal:
            return "" if apart <= differs.limit else f"apart by {apart:.2g}, {differs.limit:.2g} at most: {what}"
        case Equal() as equal if not refusal:
            assert equal.tolerance is not None
            return "" if apart <= equal.tolerance else f"apart by {apart:.2g}, {equal.tolerance:.2g} at most: {what}"
    return f"was refused: {refusal}"
