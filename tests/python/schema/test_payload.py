from __future__ import annotations

from pathlib import Path

import numpy as np

from jupyter_dtf.schema import payload


def test_a_payload_comes_back_with_its_arrays_and_functions(tmp_path: Path) -> None:
    offset = 3
    value = {"x": np.arange(1000.0).reshape(10, 100), "empty": np.zeros((0, 4)), "f": lambda n: n + offset, "s": "text"}
    path = tmp_path / "payload"
    path.write_bytes(payload.pack(value))
    back = payload.load(path)
    np.testing.assert_array_equal(back["x"], value["x"])
    assert back["empty"].shape == (0, 4)
    assert back["f"](4) == 7
    assert back["s"] == "text"


def test_arrays_are_mapped_aligned_and_may_be_written_without_touching_the_file(tmp_path: Path) -> None:
    path = tmp_path / "payload"
    path.write_bytes(payload.pack((b"odd", np.ones(5, np.uint8), np.ones(1000))))
    _, _, array = payload.load(path)
    assert not array.flags.owndata
    assert array.ctypes.data % 64 == 0
    array[:] = 7
    assert payload.load(path)[2].sum() == 1000
