"""Makes a session run all operations with effects in program order, as a ``tf.function`` does.

In a session's graph, an operation runs only if a result needs it, and the order is not defined. A ``tf.function`` runs
all operations with effects in program order: assignments, assertions, prints, Python functions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

# TensorFlow 2.21: no public function returns whether an operation has effects.
from tensorflow.python.framework.auto_control_deps import op_is_stateful

# TensorFlow 2.21: no public function returns the resources that an operation writes.
from tensorflow.python.framework.auto_control_deps_utils import RESOURCE_READ_OPS, get_read_write_resource_inputs

_WITHOUT_EFFECT = frozenset({"VarHandleOp", "Placeholder"})


class Effects:
    """The effects of a step's operations. The operations are added part by part, in the order of their creation.

    ``all``: the operations that must run.
    """

    def __init__(self) -> None:
        self.all: list[tf.Operation] = []
        self._written: dict[int, tf.Operation] = {}
        self._read: dict[int, list[tf.Operation]] = defaultdict(list)

    def add(self, operations: Sequence[tf.Operation], ordered: bool = True) -> None:
        """Make each operation wait for previous operations that access a variable it writes, or write one it reads.

        ``ordered``: whether operations that access no variable, such as prints, wait for each other within this part.
        """
        last: tf.Operation | None = None
        for operation in operations:
            reads, writes = _resources(operation)
            awaited = {self._written[handle] for handle in reads | writes if handle in self._written}
            for handle in writes:
                awaited.update(self._read.pop(handle, []))
                self._written[handle] = operation
            for handle in reads - writes:
                self._read[handle].append(operation)
            if _has_effect(operation):
                self.all.append(operation)
                if ordered and not reads and not writes:
                    awaited.update([last] if last is not None else [])
                    last = operation
            operation._add_control_inputs(awaited - {operation})


def written(operations: Sequence[tf.Operation]) -> list[tf.Operation]:
    """Return the operations that change a variable."""
    return [operation for operation in operations if _resources(operation)[1]]


def _resources(operation: tf.Operation) -> tuple[set[int], set[int]]:
    """Return the handles of the variables that an operation reads, and the handles of those that it may write."""
    if not any(tensor.dtype == tf.resource for tensor in operation.inputs):
        return set(), set()
    reads, writes = get_read_write_resource_inputs(operation)
    return {_handle(tensor) for tensor in reads}, {_handle(tensor) for tensor in writes}


def _handle(tensor: Any) -> int:
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return id(tensor.op)


def _has_effect(operation: tf.Operation) -> bool:
    return (
        op_is_stateful(operation) and operation.type not in _WITHOUT_EFFECT and operation.type not in RESOURCE_READ_OPS
    )
