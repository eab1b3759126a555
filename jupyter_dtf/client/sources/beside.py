"""Refuses labels and weights beside data that contains its own."""

from __future__ import annotations

from typing import Any

from ...errors import InvalidInput


def refuse_beside(what: str, y: Any, sample_weight: Any) -> None:
    """Raise InvalidInput if labels or weights are passed along with data that contains them."""
    for name, value in (("y", y), ("sample_weight", sample_weight)):
        if value is not None:
            raise InvalidInput(f"`{name}` must be contained in {what}, not passed separately", field=name)
