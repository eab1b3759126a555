"""Strategies: how the tasks of a run train one model together. Inert; ``backend/task/fit`` carries them out."""

from __future__ import annotations

from typing import Any

import msgspec

from ..errors import InvalidInput

TRANSPORTS = ("auto", "shm", "ring")


class AllReduce(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Synchronous data parallelism: every task computes gradients on its share of each batch, all apply their mean.

    ``transport`` is how the sum over the tasks is formed: ``shm``, in shared memory, which needs all tasks on one
    x86-64 machine; ``ring``, TensorFlow's own collectives, which work across machines; ``auto``, the first of the two
    that can work.
    """

    transport: str = "auto"

    def __post_init__(self) -> None:
        if self.transport not in TRANSPORTS:
            raise InvalidInput(
                f"transport is one of {', '.join(TRANSPORTS)}. Received: {self.transport!r}", field="strategy.transport"
            )


def parse_strategy(value: Any) -> AllReduce:
    """A strategy from its name (``"allreduce"``) or itself. Raises InvalidInput for anything else."""
    if isinstance(value, AllReduce):
        return value
    if value == "allreduce":
        return AllReduce()
    raise InvalidInput(f'strategy is "allreduce" or a dtf.AllReduce. Received: {value!r:.200}', field="strategy")
