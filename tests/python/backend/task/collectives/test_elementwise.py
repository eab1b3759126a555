"""Tests of combining float16 values with TensorFlow, which gives the same bits as NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

UFUNCS: dict[str, Any] = {"sum": np.add, "product": np.multiply, "min": np.minimum, "max": np.maximum}


def every_half() -> Any:
    return np.arange(1 << 16, dtype=np.uint16).view(np.float16)


@pytest.mark.parametrize("op", UFUNCS)
def test_every_value_with_others(op: str) -> None:
    from jupyter_dtf.backend.task.collectives.elementwise import combine_for

    combine, ufunc = combine_for(op, np.dtype(np.float16)), UFUNCS[op]
    x = every_half()
    others = [np.roll(x, 4_321), *(np.full_like(x, each) for each in (0.0, -0.0, 1.0, -6e-8, 65_504.0, np.inf, np.nan))]
    for y in others:
        before = x.copy(), y.copy()
        with np.errstate(all="ignore"):
            expected = ufunc(x, y)
            found = combine(x, y)
            total = x.copy()
            assert combine(total, y, out=total) is total
            few = combine(x[:100], y[:100])
        numbers = ~np.isnan(expected)
        for made in (found, total):
            assert made.dtype == np.float16
            np.testing.assert_array_equal(np.isnan(made), ~numbers)
            np.testing.assert_array_equal(made.view(np.uint16)[numbers], expected.view(np.uint16)[numbers])
        np.testing.assert_array_equal(few, expected[:100])
        for now, then in zip((x, y), before, strict=True):
            np.testing.assert_array_equal(now.view(np.uint16), then.view(np.uint16), "an input was overwritten")


@pytest.mark.parametrize("offset", [0, 1])
def test_within_a_graph_and_anywhere_in_memory(offset: int) -> None:
    import tensorflow as tf

    from jupyter_dtf.backend.task.collectives.elementwise import combine_for

    combine = combine_for("sum", np.dtype(np.float16))
    x = np.ones((1 << 15) + 1, np.float16)[offset:]
    with tf.Graph().as_default():
        assert np.all(combine(x, x) == 2)
        assert not tf.compat.v1.get_default_graph().get_operations()
    assert np.all(x == 1)
