"""Sums through memory that the tasks of one machine share.

A small array: everyone writes its own, waits for all, adds up everyone's in the same order. A large one: everyone owns
a share of it; everyone writes what the others own, waits, adds up its share, writes that, waits, reads the others'
shares. The memory traffic per task is that of a few copies of the array, whatever the number of tasks.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from .base import Reducer

_LINE = 64  # bytes: a task's words lie in a cache line of their own
_ARRIVED, _PID, _STATE = 0, 1, 2  # 32-bit words of that line
_HERE, _LEFT, _FAILED = 0, 1, 2

_SMALL_BYTES = 1 << 16  # up to here adding everyone's whole array costs less than a second meeting
_SPIN_S = 200e-6  # about what a wake-up by the kernel costs on a busy machine
_LOOK_S = 0.25  # how often a waiting task looks whether the others live

_FUTEX_WAIT, _FUTEX_WAKE = 0, 1
_SYS_FUTEX = 202  # x86-64; the reducer also relies on that architecture's ordering of stores

_libc = ctypes.CDLL(None, use_errno=True)


class _Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


_LOOK = _Timespec(0, int(_LOOK_S * 1e9))


class SharedMemoryReducer(Reducer):
    """See the module. ``directory`` is one that all tasks see, in memory for the sake of speed."""

    def __init__(self, directory: Path, rank: int, size: int) -> None:
        super().__init__(rank, size)
        self._directory = Path(directory)
        header = _mapped(self._directory / "reduce", size * _LINE)
        self._words = memoryview(header).cast("I")
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(header))
        self._others = [r for r in range(size) if r != rank]
        self._spin_s = _SPIN_S if size <= len(os.sched_getaffinity(0)) else 0.0
        self._meetings = 0
        self._capacity = 0
        self._slots = np.zeros((size, 0), np.uint8)
        self._sums = np.zeros(0, np.uint8)
        self._small = np.zeros((2, size, 0), np.uint8)
        self._buffers: list[npt.NDArray[Any]] = []
        self._words[rank * 16 + _PID] = os.getpid()
        small = _mapped(self._directory / "reduce-small", 2 * size * _SMALL_BYTES)
        self._small = np.frombuffer(small, np.uint8).reshape(2, size, _SMALL_BYTES)
        self._meet()

    def sum(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if array.nbytes <= _SMALL_BYTES:
            return self._sum_small(array)
        return self._sum_large(array)

    def sum_tensor(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        total = tf.numpy_function(self.sum, [tensor], tensor.dtype)
        total.set_shape(tensor.shape)
        return total

    def close(self, failed: bool = False) -> None:
        self._words[self.rank * 16 + _STATE] = _FAILED if failed else _LEFT
        self._wake()

    def _sum_small(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        # Two slots in turn: whoever writes into one again has met everyone after they had read it.
        slots = self._small[self._meetings % 2, :, : array.nbytes].view(array.dtype)
        slots[self.rank] = array
        self._meet()
        total: npt.NDArray[Any] = np.add.reduce(slots, axis=0, dtype=array.dtype)
        return total

    def _sum_large(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        self._reserve(array.nbytes)
        item = array.dtype.itemsize
        bounds = _shares(array.size, self.size, _LINE // item)
        mine = slice(bounds[self.rank], bounds[self.rank + 1])
        slots = self._slots[:, : array.nbytes].view(array.dtype)
        sums = self._sums[: array.nbytes].view(array.dtype)
        total = self._buffer(array)
        for other in self._others:
            share = slice(bounds[other], bounds[other + 1])
            slots[self.rank, share] = array[share]
        self._meet()
        np.add(array[mine], slots[self._others[0], mine], out=total[mine])
        for other in self._others[1:]:
            np.add(total[mine], slots[other, mine], out=total[mine])
        sums[mine] = total[mine]
        self._meet()
        for other in self._others:
            share = slice(bounds[other], bounds[other + 1])
            total[share] = sums[share]
        return total

    def _buffer(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Memory for a result, an old one that TensorFlow no longer refers to if it can: fresh pages are dear."""
        for buffer in self._buffers:
            if buffer.size == array.size and buffer.dtype == array.dtype and _unused(buffer):
                return buffer
        self._buffers = [b for b in self._buffers if not _unused(b)][-3:]
        raw = np.empty(array.nbytes + _LINE, np.uint8)  # TensorFlow takes over aligned memory without a copy
        start = -raw.ctypes.data % _LINE
        buffer = raw[start : start + array.nbytes].view(array.dtype)
        self._buffers.append(buffer)
        return buffer

    def _reserve(self, nbytes: int) -> None:
        if nbytes <= self._capacity:
            return
        self._capacity = -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
        path = self._directory / f"reduce-{self._capacity}"
        memory = np.frombuffer(_mapped(path, (self.size + 1) * self._capacity), np.uint8)
        self._slots = memory[: self.size * self._capacity].reshape(self.size, self._capacity)
        self._sums = memory[self.size * self._capacity :]

    def _meet(self) -> None:
        """Return when every task has come here as often as this one."""
        self._meetings += 1
        target = self._meetings & 0xFFFFFFFF
        self._words[self.rank * 16 + _ARRIVED] = target
        self._wake()
        for other in self._others:
            self._await(other, target)

    def _await(self, other: int, target: int) -> None:
        words, index = self._words, other * 16 + _ARRIVED
        if not (words[index] - target) & 0x80000000:
            return
        end = time.perf_counter() + self._spin_s
        while time.perf_counter() < end:
            if not (words[index] - target) & 0x80000000:
                return
            os.sched_yield()
        while (words[index] - target) & 0x80000000:
            seen = words[index]
            if not (seen - target) & 0x80000000:
                return
            self._check(other)
            # Sleeps only if the word still is what was seen; ctypes lets other threads run meanwhile.
            _libc.syscall(
                _SYS_FUTEX, ctypes.c_void_p(self._address + 4 * index), _FUTEX_WAIT, seen, ctypes.byref(_LOOK), None, 0
            )

    def _wake(self) -> None:
        address = ctypes.c_void_p(self._address + self.rank * _LINE + 4 * _ARRIVED)
        _libc.syscall(_SYS_FUTEX, address, _FUTEX_WAKE, self.size, None, None, 0)

    def _check(self, other: int) -> None:
        state = self._words[other * 16 + _STATE]
        if state != _HERE:
            how = "failed" if state == _FAILED else "ended"
            raise RuntimeError(f"The task of rank {other} has {how} while the others wait for its gradients")
        pid = self._words[other * 16 + _PID]
        if pid and not _alive(pid):
            raise RuntimeError(f"The task of rank {other} (process {pid}) has died")


def _mapped(path: Path, nbytes: int) -> mmap.mmap:
    """``nbytes`` of the file, made if it is not there; new bytes are zero."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(descriptor, nbytes)
        return mmap.mmap(descriptor, nbytes)
    finally:
        os.close(descriptor)


def _shares(length: int, size: int, step: int) -> list[int]:
    """``size + 1`` bounds of nearly equal shares; inner ones are multiples of ``step``."""
    return [min(length, -(-length * r // size // step) * step) for r in range(size)] + [length]


def _unused(buffer: Any) -> bool:
    return sys.getrefcount(buffer) <= 4  # the list, the caller's variable, this parameter, getrefcount's own


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False
