"""Tests of snapshots of variables: copies in memory that is reused, and tensors that share this memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jupyter_dtf.backend.task.checkpoint.snapshots import Snapshots, held_by, tensor_of


def address(array: Any) -> int:
    return int(np.asarray(array).__array_interface__["data"][0])


def test_a_snapshot_is_a_copy_in_the_memory_of_the_one_before() -> None:
    import tensorflow as tf

    variables = {"a": tf.Variable([[1.0, 2.0]]), "b": tf.Variable(3), "c": tf.Variable(["x", "yz"])}
    snapshots = Snapshots()
    first = snapshots.take(variables.items())
    variables["a"].assign([[5.0, 6.0]])
    assert first["a"].tolist() == [[1.0, 2.0]]
    assert (first["b"].tolist(), first["c"].tolist()) == (3, [b"x", b"yz"])
    places = {key: address(array) for key, array in first.items()}
    second = snapshots.take(variables.items())
    assert second["a"].tolist() == [[5.0, 6.0]]
    assert {key: address(array) for key, array in second.items()} == places
    longer = snapshots.take([("a", tf.Variable([1.0, 2.0, 3.0])), ("d", tf.Variable(True))])
    assert (longer["a"].tolist(), longer["d"].tolist()) == ([1.0, 2.0, 3.0], True)
    assert longer.keys() == {"a", "d"}


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16", "int64", "uint8", "bool", "complex64"])
@pytest.mark.parametrize("shape", [(3, 5), (), (0, 4)])
def test_any_type_is_held_and_made_a_tensor_of_in_its_own_memory(dtype: str, shape: tuple[int, ...]) -> None:
    import tensorflow as tf

    variable = tf.Variable(tf.cast(tf.ones(shape), dtype))
    held = held_by(variable)
    assert (held.dtype, held.shape) == (variable.dtype.as_numpy_dtype, shape)
    array = Snapshots().take([("a", variable)])["a"]
    tensor = tensor_of(array)
    assert (tensor.dtype, tuple(tensor.shape)) == (variable.dtype, shape)
    np.testing.assert_array_equal(tensor.numpy(), variable.numpy())
    if dtype != "bfloat16" and array.size:
        assert address(memoryview(tensor)) == address(array)


def test_arrays_of_any_kind_become_tensors() -> None:
    unaligned = np.frombuffer(bytearray(range(9)), np.uint8)[1:].view(np.int32)
    read_only = np.arange(4.0)
    read_only.flags.writeable = False
    for array in (
        unaligned,
        read_only,
        np.arange(10.0)[::2],
        np.asfortranarray(np.eye(3)),
        np.array([b"a", b"b\0c"], object),
    ):
        np.testing.assert_array_equal(tensor_of(array).numpy(), array)


def test_a_graph_of_tensorflow_1_gets_no_constants_of_what_is_held() -> None:
    import tensorflow as tf

    tensor = tf.constant([1.0, 2.0])
    with tf.Graph().as_default() as graph:
        assert held_by(tensor).tolist() == [1.0, 2.0]
        assert graph.get_operations() == []
