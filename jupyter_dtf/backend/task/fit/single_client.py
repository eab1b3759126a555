"""A task's context for a program with a single client."""

from __future__ import annotations

from typing import Any


class OneClient:
    """A context like ``ctx``, except that the task has all of the data."""

    size = 1

    def __init__(self, ctx: Any) -> None:
        self._ctx = ctx

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)

    def shard(self, dataset: Any) -> Any:
        return dataset
