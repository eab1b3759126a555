"""Default names of runs: the name of the model or program, with a number if it is taken. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable


def numbered(name: str, taken: Iterable[str]) -> str:
    """Return ``name`` if it is not taken, otherwise ``name`` with a number, such as ``mlp 2``.

    The number is one more than the highest one in ``taken``, where ``mlp`` itself counts as 1.
    """
    counted = re.compile(re.escape(name) + r"(?: ([1-9][0-9]{0,8}))?")
    numbers = [int(match[1] or 1) for other in taken if (match := counted.fullmatch(other))]
    return name if not numbers else f"{name} {max(numbers) + 1}"


def again(name: str, taken: Iterable[str]) -> str:
    """Return a name for a run that continues a run of this name, such as ``mlp 3`` for ``mlp 2``."""
    return numbered(re.sub(r" [1-9][0-9]{0,8}$", "", name), taken)
