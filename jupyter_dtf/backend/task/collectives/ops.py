"""The collectives that programs call, in eager code and in a ``tf.function``.

Every task of the run, or of the process set, must make the same calls in the same order. Gradients are those of the sum
of all tasks' losses.
"""

from __future__ import annotations

from .communicator import ProcessSet, add_process_set
from .exchanges import (
    allgather,
    allgather_object,
    alltoall,
    barrier,
    broadcast,
    broadcast_object,
    broadcast_variables,
    grouped_allgather,
)
from .reductions import allreduce, grouped_allreduce, grouped_reducescatter, reducescatter

__all__ = [
    "ProcessSet",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_object",
    "broadcast_variables",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_reducescatter",
    "reducescatter",
]
