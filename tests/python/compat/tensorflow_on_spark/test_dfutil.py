"""Tests of dataframes that are saved as TFRecord files and loaded again, or read by TensorFlow itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.dataframe as dd
import pandas as pd
import pytest
import tensorflow as tf

from jupyter_dtf.compat import dfutil
from jupyter_dtf.compat.tensorflow_on_spark import row_frames
from jupyter_dtf.errors import Conflict, InvalidInput, NotFound

ROW = ("a text", 1, [2, 3, 4, 5], -1.1, [-2.2, -3.3, -4.4, -5.5], bytearray(b"\xff\xfe\xfd\xfc"))


@pytest.fixture
def frame() -> Any:
    """Return a dataframe of two rows, with a column of each type."""
    rows = [ROW, ("ä", -(2**62), [7, 8], 0.5, [1.0, 2.0], bytearray(b"\x00\x01"))]
    return pd.DataFrame([dict(zip("abcdef", row, strict=True)) for row in rows])


def test_every_type_comes_back(frame: Any, tmp_path: Path) -> None:
    there = str(tmp_path / "records")
    given = dd.concat([row_frames.as_dask(frame.iloc[:1]), row_frames.as_dask(frame.iloc[1:])])
    dfutil.saveAsTFRecords(given, there)
    assert sorted(path.name for path in Path(there).iterdir()) == ["_SUCCESS", "part-r-00000", "part-r-00001"]

    loaded = dfutil.loadTFRecords(None, there, binary_features=["f"])
    assert loaded.npartitions == 2
    found = loaded.compute()
    assert list(found.columns) == list("abcdef")
    assert [str(dtype) for dtype in loaded.dtypes] == ["object", "int64", "object", "float64", "object", "object"]
    for column in "abc":
        assert list(found[column]) == list(frame[column])
    assert list(found["d"]) == pytest.approx(list(frame["d"]), rel=1e-6)  # an Example's floats have 32 bits
    for mine, back in zip(frame["e"], found["e"], strict=True):
        assert back == pytest.approx(mine, rel=1e-6)
    assert list(found["f"]) == list(frame["f"])
    assert isinstance(found["f"].iloc[0], bytearray)

    assert dfutil.isLoadedDF(loaded)
    assert not dfutil.isLoadedDF(given)
    assert not dfutil.isLoadedDF(loaded[loaded.b == 1])
    with pytest.raises(Conflict, match="new directory"):
        dfutil.saveAsTFRecords(frame, there)


def test_tensorflow_reads_what_was_written(frame: Any, tmp_path: Path) -> None:
    dfutil.saveAsTFRecords(frame, str(tmp_path / "records"))
    dataset = tf.data.TFRecordDataset(str(tmp_path / "records" / "part-r-00000"))
    features = {"a": tf.io.FixedLenFeature((), tf.string), "c": tf.io.VarLenFeature(tf.int64)}
    read = [tf.io.parse_single_example(record, features) for record in dataset]
    assert [row["a"].numpy().decode() for row in read] == ["a text", "ä"]
    assert [tf.sparse.to_dense(row["c"]).numpy().tolist() for row in read] == [[2, 3, 4, 5], [7, 8]]


def test_rows_and_schemas() -> None:
    dtypes = [("x", "bigint"), ("names", "array<string>"), ("missing", "double"), ("yes", "boolean")]
    examples = dfutil.toTFExample(dtypes)([{"x": 3, "names": ["a", "b"], "missing": None, "yes": True}])
    (row,) = dfutil.fromTFExample(examples)
    assert row == {"missing": None, "names": ["a", "b"], "x": 3, "yes": 1}
    assert (row.x, row["names"]) == (3, ["a", "b"])
    schema = dfutil.infer_schema(tf.train.Example.FromString(examples[0][0]), binary_features=["names"])
    assert schema == [("missing", "string"), ("names", "array<binary>"), ("x", "bigint"), ("yes", "bigint")]


def test_what_an_example_cannot_hold_is_told(tmp_path: Path) -> None:
    for column, words in [
        ([[[1]], [[2]]], "flat lists of one of these, got .* in the column 'x'"),
        ([1, "a"], "values of one type, got 'x' with bigint, string"),
    ]:
        with pytest.raises(InvalidInput, match=words):
            dfutil.saveAsTFRecords(pd.DataFrame({"x": pd.Series(column, dtype=object)}), str(tmp_path / words[:4]))
    with pytest.raises(InvalidInput, match="got 'complex' of 'x'"):
        dfutil.toTFExample([("x", "complex")])
    with pytest.raises(NotFound, match="must contain files to read"):
        dfutil.loadTFRecords(None, str(tmp_path / "nothing-*"))
    with pytest.raises(InvalidInput, match="a Dask or pandas dataframe"):
        dfutil.saveAsTFRecords([1, 2], str(tmp_path / "list"))
