"""Tests of arrays that stay in their files: they are read, divided and shuffled like arrays in memory."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr

from jupyter_dtf.backend.task.fit.sources.large_arrays import MemoryMap, StoredArray
from jupyter_dtf.client.fit_data import data_of, split_off
from jupyter_dtf.client.sources.large_arrays import stored_array
from jupyter_dtf.errors import InvalidInput

from ...gang import run_gang

NUMBERS = np.random.default_rng(0).normal(size=(61, 4, 3))


def stored(directory: Path, numbers: Any = NUMBERS) -> dict[str, Any]:
    """Return the same numbers in files of every kind, and as views of some of them."""
    mapped = np.memmap(directory / "numbers.raw", numbers.dtype, "w+", shape=(70, *numbers.shape[1:]), offset=40)
    mapped[5:66] = numbers
    np.save(directory / "numbers.npy", numbers)
    with h5py.File(directory / "numbers.h5", "w") as written:
        written["group/numbers"] = numbers
    file = h5py.File(directory / "numbers.h5", "r")
    kept = zarr.open(str(directory / "numbers.zarr"), mode="w", shape=numbers.shape, chunks=(7, 4, 3), dtype="f8")
    kept[:] = numbers
    wide = np.memmap(directory / "wide.raw", numbers.dtype, "w+", shape=(61, 4, 6))
    wide[:, :, ::-2] = numbers
    return {
        "slice of a map": mapped[5:66],
        "view of a map": np.asarray(np.load(directory / "numbers.npy", mmap_mode="r")),
        "every other column, backwards": wide[:, :, ::-2],
        "hdf5": file["group/numbers"],
        "zarr": kept,
    }


def test_rows_are_read_as_they_are_in_memory(tmp_path: Path) -> None:
    draw = np.random.default_rng(1)
    for name, array in stored(tmp_path).items():
        found = stored_array(array, "x")
        assert found is not None, name
        travelled: StoredArray = pickle.loads(pickle.dumps(found))
        assert len(pickle.dumps(found)) < 1000, name
        assert travelled.shape == NUMBERS.shape and travelled.dtype == np.float32, name
        for rows in (
            np.arange(10, 31),
            draw.permutation(61),
            draw.permutation(61)[:3],
            np.array([60, 0]),
            np.arange(0),
        ):
            np.testing.assert_array_equal(travelled.read(rows), NUMBERS[rows].astype("float32"), name)
        part = travelled[10:40][5:-5]
        np.testing.assert_array_equal(np.asarray(part), NUMBERS[15:35].astype("float32"), name)


def test_what_is_in_no_file_travels_as_it_did(tmp_path: Path) -> None:
    mapped = np.memmap(tmp_path / "numbers.raw", "f4", "w+", shape=(10, 2))
    changed = np.memmap(tmp_path / "numbers.raw", "f4", "c", shape=(10, 2))
    changed[0] = 7
    for array in (mapped[[3, 1]], mapped + 1, np.ones((3, 2)), changed, [1, 2]):
        assert stored_array(array, "x") is None
    (tmp_path / "numbers.raw").unlink()
    assert stored_array(mapped, "x") is None


def test_another_file_of_that_path_is_refused(tmp_path: Path) -> None:
    mapped = np.memmap(tmp_path / "numbers.raw", "f4", "w+", shape=(10, 2))
    found = stored_array(mapped, "x")
    assert isinstance(found, MemoryMap)
    mapped[9] = 5
    rule = r"must be on every host of the cluster under the same path.*numbers.raw on "
    with pytest.raises(InvalidInput, match=rule + r".*its data is different.*np.array\(\.\.\.\)"):
        found[2:].read([0])
    (tmp_path / "numbers.raw").unlink()
    with pytest.raises(InvalidInput, match=rule + ".*FileNotFoundError"):
        found[2:].read([0])
    with h5py.File(tmp_path / "words.h5", "w") as file:
        file["words"] = [b"a", b"b"]
        with pytest.raises(InvalidInput, match="must contain numbers"):
            stored_array(file["words"], "x")


def test_shares_and_orders_are_those_of_arrays_in_memory(tmp_path: Path) -> None:
    arrays = {name: array for name, array in stored(tmp_path).items() if name != "hdf5"}
    y = np.arange(61)
    labels = np.memmap(tmp_path / "labels.raw", y.dtype, "w+", shape=y.shape)
    labels[:] = y
    data: dict[str, Any] = {
        name: data_of({"a": array, "b": labels}, labels, None, "x") for name, array in arrays.items()
    }
    data[""] = data_of({"a": NUMBERS, "b": y}, y, None, "x")
    assert isinstance(data["zarr"].x["a"], StoredArray)
    assert [len(part.y) for part in split_off(data["zarr"], 0.25)] == [45, 16]  # type: ignore[union-attr]

    def program(ctx: Any) -> Any:
        import tensorflow as tf

        from jupyter_dtf.backend.task.fit import array_shares
        from jupyter_dtf.backend.task.fit.sources.base import Share

        share: Any = Share(ctx.rank, ctx.size)
        read = {}
        for name, each in data.items():
            adapter = array_shares.adapter_of(each, 9, None, {number: 1 + number / 61 for number in range(61)})
            parts = {
                "shuffled": [array_shares.shares(adapter, share, 3, tf.data.Dataset.range(2))],
                "in order": array_shares.shares_in_order(adapter, share),
                "none": [array_shares.no_batches(adapter)],
            }
            read[name] = {
                part: [list(found.as_numpy_iterator()) for found in datasets] for part, datasets in parts.items()
            }
            read[name]["first"] = [tf.nest.map_structure(np.asarray, array_shares.first_batches(adapter, 3, 0, 2))]
            read[name]["spec"] = [[str(parts["shuffled"][0].element_spec)], [str(parts["none"][0].element_spec)]]
        return read

    for size in (1, 3):
        for task in run_gang(size, program):
            expected = task.pop("")
            assert sum(map(len, expected["shuffled"])) == 2 * 7
            for name, read in task.items():
                for part, batches in expected.items():
                    np.testing.assert_equal(read[part], batches, f"{name}, {part}")
