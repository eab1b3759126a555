"""Synchronizes the tasks' weights, and checks that they are equal."""

from __future__ import annotations

import zlib
from typing import Any

import keras
import numpy as np

from ..collectives.primitive import Reducer
from ..model.changed_attributes import ChangedAttributes
from ..model.parts import Reference

# On different kinds of machines, rounding errors may differ. Relative differences above this limit are not due to
# rounding.
_ROUNDING = 1e-4
# GPUs add up the rows of an embedding's gradient in any order, so that tasks on equal GPUs differ this much in an epoch
# (at most 3e-7 was seen on an H200).
_ORDER_OF_SUMS = 1e-5


class Weights:
    """The variables that must be equal on all tasks. All methods except the checksums are collectives.

    ``beside``: the chief's copies of variables that another process trains. Callbacks may change these copies.
    """

    held_elsewhere = False
    """Whether processes other than the tasks hold the weights."""

    def __init__(self, variables: list[Any], reducer: Reducer, ctx: Any, beside: list[Any] | None = None) -> None:
        self.variables = variables
        self._beside = beside or []
        self.reducer = reducer
        self._ctx = ctx
        self.checks = 0
        self._told = ""

    @property
    def are_shared(self) -> bool:
        """Whether other processes need to know of changes that callbacks make on the chief."""
        return self.reducer.size > 1 or self.held_elsewhere

    def checksum(self) -> int:
        """Return a CRC-32 of all variables, which almost certainly changes if any bit of any variable changes."""
        return _checksum(self.variables)

    def checksum_with_copies(self) -> int:
        """Return a CRC-32 of all variables that callbacks on the chief may change, including the copies in
        ``beside``.
        """
        return _checksum([*self.variables, *self._beside])

    def from_chief(self) -> None:
        """Set the variables on every task to the chief's values."""
        self._broadcast(self.variables)

    def some_from_chief(self, positions: list[int]) -> None:
        """Set some variables on every task to the chief's values. ``positions``: their indices in ``variables``."""
        self._broadcast([self.variables[position] for position in positions])

    def attributes_to_servers(self, changed: dict[Reference, ChangedAttributes]) -> None:
        """Send the attributes that callbacks on the chief have changed to processes that hold an optimizer. No
        collective.
        """

    def _broadcast(self, variables: list[Any]) -> None:
        values = self.reducer.broadcast([v.numpy() for v in variables])
        if self.reducer.rank != 0:
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)

    def average_moving(self, moving: list[Any]) -> None:
        """Average the variables that each task computes from its own examples, such as moving statistics of
        normalization layers.

        Integers and booleans cannot be averaged: they are set to the chief's values.
        """
        own = [np.asarray(v.numpy()) for v in moving]
        checksum = 0
        for value in own:
            checksum = zlib.crc32(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data, checksum)
        if len(set(self.reducer.all_gather(checksum))) == 1:
            return  # usually frozen weights
        numbers = [value.ravel().astype(np.float64) for value in own]
        if self.reducer.rank != 0:
            numbers = [n if _is_float(v) else n * 0 for n, v in zip(numbers, moving, strict=True)]
        flat = self.reducer.sum(np.concatenate(numbers))
        start = 0
        for variable, value in zip(moving, own, strict=True):
            total = flat[start : start + value.size].reshape(value.shape)
            start += value.size
            variable.assign((total / self.reducer.size if _is_float(variable) else total).astype(value.dtype))

    def check(self, epoch: int) -> None:
        """Raise RuntimeError, and show an error to the user, unless all tasks hold the same weights up to rounding. If
        they differ only by rounding, set them to the chief's values and tell the user once.
        """
        self.checks += 1
        checksums = self.reducer.all_gather(self.checksum())
        if len(set(checksums)) == 1:
            return
        largest = max(self.reducer.all_gather(self._distance_to_chief()), key=lambda pair: _order(pair[0]))
        if largest[0] <= _ROUNDING:
            level = "info" if largest[0] <= _ORDER_OF_SUMS else "warning"
            if self.reducer.rank == 0 and self._told not in (level, "warning"):
                self._ctx.note(level, "The tasks round differently", f"{largest[1]} differs by {largest[0]:.1e}")
                self._told = level
            self.from_chief()
            return
        text = (
            f"After epoch {epoch + 1} the weights differ between the tasks. The largest difference is in {largest[1]}: "
            f"{largest[0]:.3g} relative to its size. Weights stay equal only if they are changed by an optimizer of "
            "the model, in train_step, and in the same way on all tasks"
        )
        self._ctx.note("error", "The weights are not equal on all tasks", text)
        raise RuntimeError(text)

    def _distance_to_chief(self) -> tuple[float, str]:
        worst = (0.0, "")
        chiefs = self.reducer.broadcast([v.numpy() for v in self.variables])
        for variable, theirs in zip(self.variables, chiefs, strict=True):
            mine, theirs = variable.numpy().astype(np.float64), theirs.astype(np.float64)
            if not mine.size:
                continue
            scale = max(float(np.max(np.abs(theirs))), 1e-12)
            distance = float(np.max(np.abs(mine - theirs))) / scale
            if _order(distance) > _order(worst[0]):
                worst = (distance, variable.path)
        return worst


def _checksum(variables: list[Any]) -> int:
    total = 0
    for variable in variables:
        total = zlib.crc32(np.ascontiguousarray(variable.numpy()).reshape(-1).view(np.uint8).data, total)
    return total


def _order(distance: float) -> float:
    return np.inf if np.isnan(distance) else distance


def _is_float(variable: Any) -> bool:
    return bool(keras.backend.is_float_dtype(variable.dtype))
