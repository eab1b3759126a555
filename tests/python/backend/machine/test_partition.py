"""Conversion of a collection's partitions, of any type, to arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from jupyter_dtf.backend.machine.partition import NOTHING, Examples, assemble, cut
from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.partitions import Described

FRAME = pd.DataFrame({"a": [1, 2, 3], "b": [0.5, 1.5, 2.5]})


@pytest.mark.parametrize(
    ("parts", "structure", "leaves"),
    [
        ([np.zeros((3, 2))], 0, [("float32", (2,))]),
        ([FRAME, FRAME["a"]], (0, 1), [("float32", (2,)), ("int64", (1,))]),
        ([{"p": FRAME["a"], "q": np.zeros((3, 4), "uint8")}], {"p": 0, "q": 1}, [("int64", (1,)), ("uint8", (4,))]),
        ([(np.zeros((3, 2)), np.zeros(3, bool))], (0, 1), [("float32", (2,)), ("bool", ())]),
        (
            [Examples([({"p": 1.0, "q": "a"}, 2)] * 3)],
            ({"p": 0, "q": 1}, 2),
            [("float32", ()), ("object", ()), ("int64", ())],
        ),
        ([np.array([[1, 2.0], [3, 4.0], [5, 6.0]], object)], 0, [("float32", (2,))]),
    ],
    ids=["array", "pandas", "inputs", "delayed", "bag", "objects"],
)
def test_parts_are_arrays_as_keras_takes_them(parts: list[Any], structure: Any, leaves: list[Any]) -> None:
    partition = assemble(0, "x", "float32", parts)
    assert partition[:2] == (3, Described(structure, tuple(leaves)))
    for whole, chosen in zip(partition[2], cut(partition, np.array([2, 0]), 0, partition[1]), strict=True):
        np.testing.assert_array_equal(chosen, whole[[2, 0]])


def test_strings_are_bytes_and_nothing_is_nothing() -> None:
    assert assemble(0, "x", "float32", [np.array(["a", "ä"])])[2][0].tolist() == [b"a", "ä".encode()]
    assert assemble(0, "x", "float32", [Examples([])])[:2] == (0, NOTHING)


def test_the_largest_example_is_known() -> None:
    words = np.array([["a", "bc"], ["ä" * 20, "b"]])
    assert assemble(0, "x", "float32", [words, np.zeros((2, 3))])[3] == 41 + 3 * 4
    assert assemble(0, "x", "float32", [words[:0], np.zeros((0, 3))])[3] == 0


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([np.zeros(3), np.zeros(2)], "got 3, 2 in partition 7 of x"),
        ([np.float32(1)], "Partition 7 of x cannot be used: its arrays must have a batch dimension"),
        ([Examples([(1, 2), (1,)])], "Partition 7 of x cannot be used: its examples must be tuples of length 2"),
        (
            [Examples([np.zeros(2), np.zeros(3)])],
            "Partition 7 of x cannot be used: all input arrays must have the same",
        ),
        ([FRAME.assign(a=[None, "b", 1])], "numbers, booleans or strings"),
        ([(np.zeros(2),) * 4], r"it must be x, \(x,\), \(x, y\) or \(x, y, sample_weight\), got 4 values"),
        (["text"], "must consist of arrays or pandas objects, got 'text'"),
    ],
)
def test_what_cannot_be_used_is_a_sentence_that_names_the_partition(parts: list[Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        assemble(7, "x", "float32", parts)
