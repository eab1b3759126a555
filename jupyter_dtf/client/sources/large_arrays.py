"""Recognizes arrays in files, so that tasks can read the files. Does not import the libraries that made the arrays."""

from __future__ import annotations

import mmap
import os
from typing import Any

import numpy as np

from ...backend.task.fit.sources.large_arrays import Hdf5Dataset, MemoryMap, StoredArray, ZarrArray
from ...errors import InvalidInput


def stored_array(value: Any, name: str) -> StoredArray | None:
    """Return the array in its file if ``value`` is a numeric array in a file; None for any other value.

    A memory map whose file is gone, or whose changes are not in a file (mode ``c``), is treated as an ordinary array.
    Raises InvalidInput for a Zarr array or HDF5 dataset that is not in a file or is not numeric.
    """
    kinds = {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(value).__mro__}
    if isinstance(value, np.ndarray):
        found: StoredArray | None = _memory_map(value)
    elif "h5py.Dataset" in kinds:
        found = _hdf5(value, name)
    elif "zarr.Array" in kinds:
        found = _zarr(value, name)
    else:
        return None
    if found is not None and found.ndim == 0:
        raise InvalidInput(
            f"The arrays in `{name}` must have at least one dimension, for the examples, got {value!r}", field=name
        )
    return found


def _memory_map(array: np.ndarray[Any, Any]) -> MemoryMap | None:
    base: Any = array
    while not (isinstance(base, np.memmap) and getattr(base, "_mmap", None) is not None):
        base = getattr(base, "base", None)
        if not isinstance(base, np.ndarray):
            return None
    path: Any = getattr(base, "filename", None)
    in_no_file = path is None or base.mode == "c" or not os.path.isfile(path)
    if in_no_file or not array.size or not array.ndim or array.dtype.kind not in "biuf":
        return None
    pages: Any = np.frombuffer(getattr(base, "_mmap"), np.uint8)  # noqa: B009
    first = base.offset - base.offset % mmap.ALLOCATIONGRANULARITY  # where the mapping starts in the file
    offset = array.__array_interface__["data"][0] - pages.__array_interface__["data"][0]
    reaches = [(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)]
    low = offset + sum(reach for reach in reaches if reach < 0)
    high = offset + sum(reach for reach in reaches if reach > 0) + array.itemsize
    if low < 0 or high > pages.nbytes:
        return None  # a copy of a part of the map, which still has the type memmap
    base.flush()  # for hosts that access the file over a network
    if os.path.getsize(path) < first + high:
        return None
    return MemoryMap(
        path=os.path.abspath(path),
        whole=array.shape,
        stored_dtype=array.dtype.str,
        start=0,
        stop=len(array),
        offset=first + offset,
        strides=array.strides,
        bytes_=first + high,
        digest=MemoryMap.digest_of(array),
    )


def _hdf5(value: Any, name: str) -> Hdf5Dataset:
    path = getattr(value.file, "filename", "")
    if value.file.driver == "core" or not os.path.isfile(path):
        raise InvalidInput(
            f"An HDF5 dataset must be in a file, got {name}={value!r:.200}. `dataset[:]` loads it into memory",
            field=name,
        )
    _check_numbers(value, name)
    value.file.flush()
    whole = tuple(int(n) for n in value.shape)
    return Hdf5Dataset(
        path=os.path.abspath(path),
        name=value.name,
        whole=whole,
        stored_dtype=value.dtype.str,
        start=0,
        stop=whole[0] if whole else 0,
    )


def _zarr(value: Any, name: str) -> ZarrArray:
    store = value.store
    path = getattr(store, "root", None) or getattr(store, "path", None)
    if path is None or not os.path.exists(path):
        raise InvalidInput(
            f"A Zarr array must be in a directory, got {name}={value!r:.200}. `array[:]` loads it into memory",
            field=name,
        )
    _check_numbers(value, name)
    whole = tuple(int(n) for n in value.shape)
    return ZarrArray(
        path=os.path.abspath(str(path)),
        name=value.path,
        whole=whole,
        stored_dtype=np.dtype(value.dtype).str,
        start=0,
        stop=whole[0] if whole else 0,
    )


def _check_numbers(value: Any, name: str) -> None:
    if np.dtype(value.dtype).kind not in "biuf":
        raise InvalidInput(
            f"An array in a file must contain numbers or booleans, got {name} of {value.dtype}. `array[:]` loads it "
            "into memory",
            field=name,
        )
