"""TensorFlowOnSpark's ``dfutil``: converts dataframes of Dask and pandas to and from TFRecords of Examples."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...errors import Conflict, InvalidInput
from . import part_files, row_frames, rows
from .rows import Row

loadedDF: dict[str, str] = {}  # noqa: N816 - the name that programs use
"""The directories from which dataframes were loaded, keyed by Dask's names of the dataframes."""

_INTEGERS, _FLOATS, _TEXTS = ("bigint", "boolean"), ("double",), ("string", "binary")
_ARRAY = "array<{}>"
Dtypes = Sequence[tuple[str, str]]
"""Columns and their types: ``boolean``, ``bigint``, ``double``, ``string``, ``binary``, or ``array<...>`` of these."""


class Field(NamedTuple):
    """A column of a schema. ``dtype`` is as in ``Dtypes``."""

    name: str
    dtype: str


def isLoadedDF(df: Any) -> bool:
    """Return whether a dataframe was returned by ``loadTFRecords``, rather than derived from one.

    Args:
        df: A Dask dataframe.

    Returns:
        True for a loaded dataframe itself, False for one derived from it.
    """
    return getattr(df, "_name", None) in loadedDF


def saveAsTFRecords(df: Any, output_dir: str) -> None:
    """Write a dataframe to a new directory, with a file ``part-r-00000``... for each partition.

    Args:
        df: A Dask or pandas dataframe, with columns of the types in ``Dtypes``.
        output_dir: A path or URL that does not exist yet.

    Raises:
        Conflict: If ``output_dir`` exists.
        InvalidInput: If an Example cannot hold a value. The error names the column.
    """
    from dask import compute, delayed

    system, root = part_files.opened(output_dir)
    if system.exists(root):
        raise Conflict(f"`output_dir` must be a new directory for saveAsTFRecords(), got {output_dir!r}, which exists")
    system.makedirs(root, exist_ok=True)
    write = delayed(_write, pure=False)
    url, parts = part_files.absolute(output_dir), row_frames.as_dask(df).to_delayed()
    compute(*[write(part, url, number) for number, part in enumerate(parts)])
    system.touch(f"{root}/_SUCCESS")


def loadTFRecords(sc: Any, input_dir: str, binary_features: Sequence[str] = ()) -> Any:
    """Load a directory of TFRecord files as a Dask dataframe.

    Args:
        sc: Accepted as in TensorFlowOnSpark, but ignored.
        input_dir: A directory, a pattern or a file.
        binary_features: The names of features whose bytes are not text.

    Returns:
        A dataframe with a partition for each file, and the column types of the first record.

    Raises:
        NotFound: If there are no files.
        InvalidInput: If there are no records.

    Example:
        >>> df = dfutil.loadTFRecords(sc, "hdfs:///examples", binary_features=["image"])
    """
    from dask import delayed

    found = part_files.parts(input_dir)
    first = next((record for part in found for record in _records(part)), None)
    if first is None:
        raise InvalidInput(
            f"`input_dir` must have at least one record, for the types of the columns, got {input_dir!r}"
        )
    schema = infer_schema(_parsed(first), binary_features)
    columns = [field.name for field in schema]
    example = next(iter(fromTFExample([(first, None)], binary_features)))
    meta = rows.as_frame([[example[column] for column in columns]], columns).iloc[:0]
    read = delayed(_read)
    types = dict(meta.dtypes)
    df = row_frames.of_parts([read(part, columns, types, tuple(binary_features)) for part in found], meta)
    loadedDF[df._name] = str(input_dir)
    return df


def dtypes_of(frame: Any) -> list[tuple[str, str]]:
    """Return the columns of a pandas dataframe with their types. The type of an object column is that of its values.

    Args:
        frame: A pandas dataframe.

    Returns:
        Pairs of a column's name and its type, as in ``Dtypes``.

    Raises:
        InvalidInput: If a column has values of several types, or a value that an Example cannot hold.
    """
    return [(str(name), _dtype_of(str(name), frame[name])) for name in frame.columns]


def toTFExample(dtypes: Dtypes) -> Callable[[Iterable[Mapping[str, Any]]], list[tuple[bytes, None]]]:
    """Return a function that converts a partition's rows to Examples.

    Integers and booleans become an ``int64_list``, floats become a ``float_list``, which has only float32 precision,
    and strings and bytes become a ``bytes_list``. None becomes a feature without a value.

    Args:
        dtypes: The columns and their types.

    Returns:
        A function from rows (mappings) to a list of ``(serialized Example, None)``.

    Raises:
        InvalidInput: If a type is not supported.
    """
    for name, dtype in dtypes:
        _base(name, dtype)

    def to_examples(partition: Iterable[Mapping[str, Any]]) -> list[tuple[bytes, None]]:
        import tensorflow as tf

        examples = []
        for row in partition:
            feature = {name: _feature(tf, name, dtype, row[name]) for name, dtype in dtypes}
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            examples.append((example.SerializeToString(), None))
        return examples

    return to_examples


def fromTFExample(records: Iterable[Any], binary_features: Sequence[str] = ()) -> list[Row]:
    """Convert Examples to rows.

    Args:
        records: The records of a partition, ``(serialized Example, None)``.
        binary_features: The names of features whose bytes are not text.

    Returns:
        Rows with columns in alphabetical order. A feature with one value becomes that value, a feature with several
        values becomes a list, and a feature without a value becomes None.
    """
    return [
        Row({name: _value(name, feature, binary_features) for name, feature in _features(_parsed(record[0]))})
        for record in records
    ]


def infer_schema(example: Any, binary_features: Sequence[str] = ()) -> list[Field]:
    """Return the columns of an Example, in alphabetical order. The type of a feature without a value is ``string``.

    Args:
        example: A ``tf.train.Example``.
        binary_features: The names of features whose bytes are not text.

    Returns:
        A field for each feature.
    """
    return [Field(name, _inferred(name, feature, binary_features)) for name, feature in _features(example)]


# -- values -----------------------------------------------------------------------------------------------------


def _base(name: str, dtype: str) -> str:
    base = dtype.removeprefix("array<").removesuffix(">")
    if base not in (*_INTEGERS, *_FLOATS, *_TEXTS):
        raise InvalidInput(
            f"`dtypes` must be boolean, bigint, double, string or binary, or array<...> of one, got {dtype!r} of "
            f"{name!r}"
        )
    return base


def _feature(tf: Any, name: str, dtype: str, value: Any) -> Any:
    base = _base(name, dtype)
    values = [] if value is None else list(value) if dtype.startswith("array<") else [value]
    try:
        if base in _INTEGERS:
            return tf.train.Feature(int64_list=tf.train.Int64List(value=[int(each) for each in values]))
        if base in _FLOATS:
            return tf.train.Feature(float_list=tf.train.FloatList(value=values))
        encode: Callable[[Any], bytes] = bytes if base == "binary" else lambda text: str(text).encode()
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[encode(each) for each in values]))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"A value of the column {name!r} must be {dtype}, got {value!r:.100} ({error})") from None


def _value(name: str, feature: Any, binary_features: Sequence[str]) -> Any:
    kind = feature.WhichOneof("kind")
    values = list(getattr(feature, kind).value) if kind else []
    if kind == "bytes_list":
        values = [bytearray(each) if name in binary_features else each.decode() for each in values]
    return values if len(values) > 1 else values[0] if values else None


def _inferred(name: str, feature: Any, binary_features: Sequence[str]) -> str:
    kind = feature.WhichOneof("kind")
    count = len(getattr(feature, kind).value) if kind else 0
    base = "binary" if name in binary_features else "string"
    if count and kind != "bytes_list":
        base = "bigint" if kind == "int64_list" else "double"
    return _ARRAY.format(base) if count > 1 else base


def _features(example: Any) -> list[tuple[str, Any]]:
    return sorted(example.features.feature.items())


def _parsed(record: Any) -> Any:
    import tensorflow as tf

    return tf.train.Example.FromString(bytes(record))


def _dtype_of(name: str, column: Any) -> str:
    found = {_type_of(name, value) for value in column if not _is_missing(value)}
    numbers = {"bigint", "double"}
    for one, form in ((numbers, "{}"), ({_ARRAY.format(base) for base in numbers}, _ARRAY)):
        if found == one:  # integers among floats are floats
            return form.format("double")
    if len(found) > 1:
        raise InvalidInput(f"A column must have values of one type, got {name!r} with {', '.join(sorted(found))}")
    return found.pop() if found else "string"


def _is_missing(value: Any) -> bool:
    """Return whether a value represents a missing value in a column of objects. NaN does not; it is a float."""
    import pandas as pd

    return value is None or value is pd.NA or value is pd.NaT


def _type_of(name: str, value: Any) -> str:
    import numpy as np

    for kinds, dtype in (
        ((bool, np.bool_), "boolean"),
        ((int, np.integer), "bigint"),
        ((float, np.floating), "double"),
        ((str,), "string"),
        ((bytes, bytearray, memoryview), "binary"),
    ):
        if isinstance(value, kinds):
            return dtype
    if isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim == 1):
        inner = {_type_of(name, each) for each in value} or {"string"}
        if inner == {"bigint", "double"}:
            inner = {"double"}
        if len(inner) == 1 and not next(iter(inner)).startswith("array<"):
            return _ARRAY.format(inner.pop())
    raise InvalidInput(
        f"An Example must contain numbers, booleans, text, bytes or flat lists of one of these, got {value!r:.100} in "
        f"the column {name!r}"
    )


# -- files ------------------------------------------------------------------------------------------------------


def _write(part: Any, output_dir: str, number: int) -> None:
    """Write the file of a partition. TensorFlow's writer does not start a runtime, so it allocates no GPU memory."""
    import tensorflow as tf

    system, root = part_files.opened(output_dir)
    records = toTFExample(dtypes_of(part))(Row(zip(part.columns, row, strict=True)) for row in rows.tuples(part))
    with _local(system, f"{root}/part-r-{number:05d}", writes=True) as path, tf.io.TFRecordWriter(path) as writer:
        for record, _ in records:
            writer.write(record)


def _read(part: str, columns: list[str], types: Mapping[str, Any], binary_features: Sequence[str]) -> Any:
    found = fromTFExample(((record, None) for record in _records(part)), binary_features)
    if odd := next((row for row in found if list(row) != columns), None):
        raise InvalidInput(f"Every record must have the features of the first, {columns}, got {list(odd)} in {part!r}")
    return row_frames.typed_frame([list(row.values()) for row in found], columns, types)


def _records(part: str) -> Iterator[bytes]:
    # TensorFlow 2.21: tf.compat.v1.python_io has the same function, but warns that it is deprecated.
    from tensorflow.python.lib.io import tf_record

    system, root = part_files.opened(part)
    with _local(system, root, writes=False) as path:
        yield from tf_record.tf_record_iterator(path)


@contextlib.contextmanager
def _local(system: Any, path: str, *, writes: bool) -> Iterator[str]:
    """Provide a local path for a file of any file system within the context."""
    import tempfile

    if "file" in (system.protocol if isinstance(system.protocol, tuple) else (system.protocol,)):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="tfrecord-") as directory:
        here = f"{directory}/part"
        if not writes:
            system.get_file(path, here)
        yield here
        if writes:
            system.put_file(here, path)
