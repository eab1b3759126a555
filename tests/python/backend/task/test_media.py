from __future__ import annotations

import io
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from jupyter_dtf.backend.task.media import Thinned, histogram_of, picture_of, png_of, table_of, text_of
from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.events import Histogram, MediaEvent
from jupyter_dtf.schema.media import ALL_BYTES, ALL_PICTURES, MOST_NAMES


def histogram(values: Any, bins: int = 4) -> Any:
    return histogram_of("worker:0", "weights", 7, values, bins)


def picture(image: Any) -> Any:
    return picture_of("worker:0", "input", 7, image, "")


def test_what_is_not_finite_is_counted_apart() -> None:
    found = histogram(tf.constant([[0.0, 1.0, np.nan, np.inf], [4.0, 4.0, -np.inf, np.nan]]))
    assert (found.low, found.high, found.counts) == (0.0, 4.0, [1, 1, 0, 2])
    assert (found.not_a_number, found.infinite, found.step) == (2, 2, 7.0)


def test_values_without_a_spread_and_none_at_all() -> None:
    assert (histogram([3.0] * 5).counts, histogram([3.0] * 5).low, histogram([3.0] * 5).high) == ([5], 3.0, 3.0)
    assert (histogram([]).counts, histogram([np.nan]).not_a_number) == ([], 1)
    tiny = histogram([0.0, 5e-324])  # the smallest positive float: no bin fits in between
    assert (tiny.counts, tiny.low, tiny.high) == ([2], 0.0, 0.0)
    huge = histogram([-1.7e308, 0.0, 1.7e308])
    assert (sum(huge.counts), huge.low) == (3, -1.7e308)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"bins": 0}, "bins"),
        ({"bins": True}, "bins"),
        ({"values": "text"}, "values"),
        ({"name": ""}, "name"),
        ({"step": float("nan")}, "step"),
    ],
)
def test_a_wrong_histogram_is_refused(change: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        histogram_of(**{"task": "w", "name": "n", "step": 0, "values": [1.0], "bins": 3, **change})
    assert caught.value.field == field


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 1), (5, 7, 3), (5, 7, 4)])
def test_a_picture_is_what_tensorflow_reads_of_it(shape: tuple[int, ...]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    found = picture(tf.constant(pixels))
    assert (found.width, found.height) == (7, 5)
    assert (tf.io.decode_png(found.png).numpy() == pixels.reshape(5, 7, -1)).all()
    floats = picture(pixels.astype(np.float32) / 255)
    assert floats.png == found.png
    assert picture(found.png).png == found.png


def test_a_figure_is_drawn() -> None:
    class Figure:
        def savefig(self, file: io.BytesIO, format: str) -> None:
            assert format == "png"
            file.write(png_of(np.zeros((2, 3, 1), np.uint8)))

    assert (picture(Figure()).width, picture(Figure()).height) == (3, 2)


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (np.zeros((2049, 4)), "at most 2048 pixels wide and high"),
        (np.random.default_rng(0).integers(0, 256, (512, 512, 3), np.uint8), "at most 256 KiB as PNG"),
        (np.zeros((4, 4, 2)), "shape"),
        (np.zeros((0, 4)), "shape"),
        (np.full((2, 2), np.nan), "from 0 to 1"),
        (np.full((2, 2), 1.5), "from 0 to 1"),
        (np.zeros((2, 2), np.int64), "of uint8 or of floats"),
        (b"GIF89a", "a PNG file"),
        ("file.png", "shape"),
    ],
)
def test_a_picture_that_is_too_large_or_none_is_refused(image: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as caught:
        picture(image)
    assert caught.value.field == "image"


def test_a_png_without_pixels_is_refused() -> None:
    png = png_of(np.zeros((1, 1, 1), np.uint8))
    with pytest.raises(InvalidInput, match="`image` must have pixels, got 0 x 0"):
        picture(png[:16] + bytes(8) + png[24:])


def sent(count: int, event: MediaEvent) -> list[int]:
    """Return the numbers of those of ``count`` equal reports that are made and sent."""
    thinned, found = Thinned(), []
    for step in range(count):
        if thinned.takes(type(event), event.name):
            thinned.sends(event)
            found.append(step)
    return found


def test_of_very_many_ever_fewer_are_sent() -> None:
    steps = sent(4 * ALL_PICTURES, picture(np.zeros((1, 1))))
    assert steps[:ALL_PICTURES] == list(range(ALL_PICTURES))
    assert steps[ALL_PICTURES : 2 * ALL_PICTURES] == list(range(ALL_PICTURES, 3 * ALL_PICTURES, 2))
    assert steps[2 * ALL_PICTURES :] == list(range(3 * ALL_PICTURES, 4 * ALL_PICTURES, 4))


def test_large_pictures_are_fewer_sooner() -> None:
    large = picture(np.random.default_rng(0).integers(0, 256, (256, 256, 3), np.uint8))
    steps = sent(10_000, large)
    assert steps[:20] == list(range(20))
    assert len(steps) * len(large.png) < 10 * ALL_BYTES
    assert len(steps) > 100


def test_names_that_count_up_are_refused() -> None:
    thinned = Thinned()
    for number in range(MOST_NAMES):
        assert thinned.takes(Histogram, f"step {number}")
        thinned.sends(histogram_of("w", f"step {number}", 0, [1.0], 3))
    with pytest.raises(InvalidInput, match="pass the changing part as `step`"):
        thinned.takes(Histogram, "one more")
    assert thinned.takes(Histogram, "step 0")
    with pytest.raises(InvalidInput, match="`name` must be a string with at least one character"):
        thinned.takes(Histogram, [])


def table(of: Any) -> Any:
    return table_of("worker:0", "worst", 7, of)


def test_a_table_may_be_a_frame_columns_or_rows() -> None:
    frame = pd.DataFrame(
        {"image": np.array([3, 1]), "loss": np.array([0.5, np.inf], np.float32), "right": [True, False]}
    )
    found = table(frame)
    assert found.columns == ["image", "loss", "right"]
    assert found.rows == [[3.0, 0.5, True], [1.0, "inf", False]]
    assert table({"loss": tf.constant([1.0, 2.0]), "word": ["a", b"b"]}).rows == [[1.0, "a"], [2.0, "b"]]
    rows = table([{"a": 1}, {"a": 2**60, "b": tf.constant([1, 2])}])  # as a float, it could be another number
    assert rows.columns == ["a", "b"]
    assert rows.rows == [[1.0, None], [str(2**60), "[1, 2]"]]
    assert table([]).columns == table({}).rows == []


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("text", "must be a DataFrame, a mapping"),
        ([[1, 2]], "must be a DataFrame, a mapping"),
        ({"a": [1, 2], "b": [1]}, "of the same length, got a: "),
        ({"a": 5}, "of the same length"),
        ({"a": range(1001)}, "1,000 rows and 100 columns, got 1,001 rows and 1 columns"),
        ({"a": ["x" * 300_000]}, "at most 256 KiB, got "),
    ],
)
def test_a_wrong_table_is_refused(wrong: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says) as caught:
        table(wrong)
    assert caught.value.field == "table"


def test_a_text_is_kept_as_it_is_and_refused_where_it_is_too_long() -> None:
    assert text_of("worker:0", "sample", 7, "one\n two\ud800").text == "one\n two\\ud800"
    with pytest.raises(InvalidInput, match="must be at most 64.0 KiB long, got 64.1 KiB"):
        text_of("worker:0", "sample", 7, "ü" * 32_800)
    with pytest.raises(InvalidInput, match="must be a string, got 5"):
        text_of("worker:0", "sample", 7, 5)
