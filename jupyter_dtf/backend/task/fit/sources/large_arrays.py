"""Contains arrays that stay in their files: memory maps, HDF5 datasets, Zarr arrays. Tasks read only the rows of their
shares.

These objects replace in-memory arrays in the ``Arrays`` of a job. They implement the part of an array's interface that
is used: a shape, a dtype, a length and slices of rows.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import socket
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from .....errors import InvalidInput
from .....schema.printable import shown_path

Rows = Any

_FORGOTTEN_BYTES = 32 << 20
"""The number of bytes read from a memory map after which its pages are released. Released pages stay in the system's
cache, but no longer count as memory of the process.
"""
_AROUND_BYTES = 64 << 10
"""The number of bytes around an accessed page that Linux maps if they are cached."""
_DENSE = 4
"""If at least one in this many rows of a range is requested, the whole range is read in one operation."""


@dataclass(eq=False, kw_only=True)
class StoredArray(ABC):
    """Rows ``start`` up to, but not including, ``stop`` of an array in a file. Immutable; reading is thread-safe."""

    kind: ClassVar[str]
    """The name of this kind of array in messages."""

    path: str
    """The absolute path of the file or store."""
    whole: tuple[int, ...]
    """The shape of the whole array."""
    stored_dtype: str
    start: int
    stop: int
    _opened: Any = field(default=None, repr=False)
    _lock: Any = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None, "_lock": None}

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.stop - self.start, *self.whole[1:])

    @property
    def ndim(self) -> int:
        return len(self.whole)

    @property
    def dtype(self) -> Any:
        """The dtype after conversion by Keras, which converts floating-point numbers to ``keras.config.floatx()``."""
        stored = np.dtype(self.stored_dtype)
        return np.dtype(_floatx()) if stored.kind == "f" else stored

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * int(self.dtype.itemsize)

    def __len__(self) -> int:
        return self.stop - self.start

    def __getitem__(self, chosen: slice) -> StoredArray:
        """Select a range of rows, without reading them."""
        start, stop, step = chosen.indices(len(self))
        if step != 1:
            raise InvalidInput(f"A slice of rows of {self.kind} must have step 1, got {chosen}")
        return replace(self, start=self.start + start, stop=self.start + max(start, stop), _opened=None)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        """Return all rows as an array in memory."""
        read = self.read(np.arange(len(self)))
        return read if dtype is None else read.astype(dtype, copy=False)

    def copy(self) -> Any:
        return np.asarray(self)

    def read(self, rows: Rows) -> Any:
        """Return an array of the rows ``rows``, in that order. Raises InvalidInput if the file is missing or differs
        from the caller's file.
        """
        rows = np.asarray(rows, np.int64) + self.start
        if not len(rows):
            return np.empty((0, *self.whole[1:]), self.dtype)
        self.open()
        lowest, highest = int(rows.min()), int(rows.max())
        scattered = highest - lowest >= _DENSE * len(rows)
        if not scattered:
            piece = self._piece(lowest, highest + 1)
            is_a_run = len(rows) == highest - lowest + 1 and bool((np.diff(rows) == 1).all())
            read = piece if is_a_run else piece[rows - lowest]
        else:
            read = self._some(rows)
        read = np.array(read, self.dtype, order="C", copy=True)
        self._forget(read.nbytes + (_AROUND_BYTES * len(rows) if scattered else 0))
        return read

    def gather(self, rows: Any) -> Any:
        """Return the result of ``read`` as a tensor, computed by a TensorFlow operation. ``rows``: an integer tensor of
        shape (n,).
        """
        import tensorflow as tf

        read = tf.numpy_function(self.read, [rows], self.dtype)
        return tf.ensure_shape(read, [rows.shape[0], *self.whole[1:]])

    def open(self) -> None:
        """Open the file if it is not open. Raises InvalidInput if it cannot be opened, or differs from the caller's
        file.
        """
        self._lock = self._lock or threading.Lock()
        with self._lock:
            if self._opened is None:
                try:
                    self._opened = self._open()
                except Exception as error:
                    self._refuse(f"{type(error).__name__}: {error}", error)

    def _refuse(self, what: str, error: Exception | None = None) -> None:
        raise InvalidInput(
            f"The file of {self.kind} must be on every host of the cluster under the same path, with the same data, "
            f"got {shown_path(self.path)} on {socket.gethostname()}: {what}. Put it on a shared file system, copy it "
            "to each host, or load it into memory with np.array(...) so that it is sent"
        ) from error

    @abstractmethod
    def _open(self) -> Any:
        """Return the value of ``_opened``. May raise any exception if the file is missing."""

    def _piece(self, start: int, stop: int) -> Any:
        """Return consecutive rows, in the stored dtype."""
        return self._opened[start:stop]

    def _some(self, rows: Rows) -> Any:
        """Return the rows ``rows``, in that order and in the stored dtype. The rows may be in any order, but must not
        repeat.
        """
        order = np.argsort(rows)  # HDF5 requires sorted rows
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return self._sorted(rows[order])[back]

    def _sorted(self, rows: Rows) -> Any:
        return self._opened[rows]

    def _forget(self, count: int) -> None:
        """Record that ``count`` bytes have been read or mapped."""
        del count


@dataclass(eq=False, kw_only=True)
class MemoryMap(StoredArray):
    """An ``np.memmap``, or a view of one. ``offset``: the position of the array's first item in the file, in bytes."""

    kind = "a memory map"

    offset: int
    strides: tuple[int, ...]
    bytes_: int
    """The minimum size of the file, in bytes."""
    digest: bytes
    """A digest of some of the array's bytes, because another host may have a different file with the same path."""
    _read: int = field(default=0, repr=False)

    def _open(self) -> Any:
        with open(self.path, "rb") as file:
            if os.fstat(file.fileno()).st_size < self.bytes_:
                raise ValueError(f"it has {os.fstat(file.fileno()).st_size} bytes, fewer than {self.bytes_}")
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        array: Any = np.ndarray(self.whole, self.stored_dtype, self._map, self.offset, self.strides)
        if self.digest_of(array) != self.digest:
            raise ValueError("its data is different")
        return array

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state.pop("_map", None)
        return state

    def _sorted(self, rows: Rows) -> Any:
        return np.take(self._opened, rows, axis=0)

    def _forget(self, count: int) -> None:
        self._read += count
        if self._read >= _FORGOTTEN_BYTES and hasattr(mmap, "MADV_DONTNEED"):
            self._read = 0
            self._map.madvise(mmap.MADV_DONTNEED)

    @staticmethod
    def digest_of(array: Any) -> bytes:
        """Return a digest of up to 4096 items of the first, the middle and the last row."""
        digest = hashlib.blake2b(digest_size=16)
        for row in {0, len(array) // 2, len(array) - 1}:
            digest.update(np.ascontiguousarray(array[row]).reshape(-1)[:4096].tobytes())
        return digest.digest()


@dataclass(eq=False, kw_only=True)
class Hdf5Dataset(StoredArray):
    """An ``h5py.Dataset``, identified by its ``name`` in the file."""

    kind = "an HDF5 dataset"

    name: str

    def _open(self) -> Any:
        import h5py

        try:  # a process that has opened the file for writing holds a lock on it
            file = h5py.File(self.path, "r", locking=False)
        except OSError:  # this process itself has opened the file with locks
            file = h5py.File(self.path, "r")
        found = file[self.name]
        _check_same(found, self)
        return found


@dataclass(eq=False, kw_only=True)
class ZarrArray(StoredArray):
    """A ``zarr.Array`` in a store on disk, identified by its ``name`` in the store."""

    kind = "a Zarr array"

    name: str

    def _open(self) -> Any:
        import zarr

        found = zarr.open(self.path, mode="r")
        found = found[self.name] if self.name else found
        _check_same(found, self)
        return found

    def _sorted(self, rows: Rows) -> Any:
        return self._opened.oindex[rows]


def _check_same(found: Any, expected: StoredArray) -> None:
    if tuple(found.shape) != expected.whole or np.dtype(found.dtype) != np.dtype(expected.stored_dtype):
        raise ValueError(
            f"it has dtype {found.dtype} and shape {tuple(found.shape)} instead of {expected.stored_dtype} and "
            f"{expected.whole}"
        )


def _floatx() -> str:
    import keras

    return str(keras.config.floatx())
