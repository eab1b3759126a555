"""Prepares a ``tf.data.Dataset`` for sending: its graph, and the arrays and Python functions in it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import cloudpickle
import numpy as np

from ...backend.task.fit.sources.base import BatchSource
from ...backend.task.fit.sources.graph_dataset import GraphDataset, PureGraphDataset
from ...backend.task.fit.sources.passed_graph import OnlyWhereMade
from ...errors import InvalidInput
from .beside import refuse_beside

_LARGE = 1 << 16
"""Constants of a graph that have at least this size, in bytes, are sent as arrays, which the tasks on a machine share.
"""
_FILES = ("RecordDataset", "TextLineDataset", "ReadFile", "LoadDataset", "WholeFileReader")
"""Parts of the names of operations that read files."""


def dataset_of(x: Any, y: Any, sample_weight: Any, field: str) -> BatchSource | None:
    """Return the source for a dataset; None for other data. Raises InvalidInput for a dataset that tasks cannot share.

    A dataset that only this process can read is read in this process while a run trains on it.
    """
    tf = sys.modules.get("tensorflow")
    if tf is None or not isinstance(x, (tf.data.Dataset, tf.distribute.DistributedDataset)):
        return None
    if not isinstance(x, tf.data.Dataset):
        raise InvalidInput(
            f"`{field}` must be an ordinary dataset, which the tasks divide among themselves, got {x!r:.200}, which is "
            "already distributed",
            field=field,
        )
    refuse_beside("the dataset's elements", y, sample_weight)
    from ...backend.task.fit.sources.graph_rules import check_options, check_spec
    from ...backend.task.fit.sources.graph_view import GraphView
    from .fed_datasets import fed_dataset

    check_spec(x.element_spec, field)
    check_options(x.options(), field)
    if field == "x" and not int(x.cardinality()):
        raise InvalidInput("`x` must have at least one batch, got an empty tf.data.Dataset", field=field)
    view = None
    try:
        view = GraphView(_serialized(x, field))
        return _travelling(x, view, field)
    except OnlyWhereMade as error:
        return fed_dataset(x, field, error.why, view)


def _travelling(x: Any, view: Any, field: str) -> GraphDataset:
    """Return a dataset in the form in which it is sent. Raises OnlyWhereMade if no other process can read it."""
    from ...backend.task.fit.sources.graph_rules import check_graph

    for node in view.everything():
        node.device = ""  # a device of this process; TensorFlow's own way to strip it leaves "/device::0" in functions
    check_graph(view, field)
    functions = _functions(view, field)
    files = _files(view)
    kind = GraphDataset if functions else PureGraphDataset
    constants = _taken_out(view)
    return kind(view.graph.SerializeToString(), x.element_spec, int(x.cardinality()), constants, functions, files)


def _serialized(dataset: Any, field: str) -> bytes:
    import tensorflow as tf

    policy = tf.data.experimental.ExternalStatePolicy.IGNORE  # stateful operations are checked one by one
    try:
        graph = dataset._as_serialized_graph(external_state_policy=policy)
    except (tf.errors.OpError, ValueError) as error:
        raise OnlyWhereMade(
            f"its graph, which may have at most 2 GB including its tensors, cannot be serialized: {error!s:.500}", field
        ) from error
    return bytes(graph.numpy())


def _functions(view: Any, field: str) -> dict[str, Callable[..., Any]]:
    """Return the Python functions that a graph calls, keyed by token, in a form that can be pickled."""
    # TensorFlow 2.21: the registry of functions of tf.py_function is not public.
    from tensorflow.python.ops import script_ops

    # TensorFlow 2.21: the function behind the wrapper of tf.py_function is not public.
    from tensorflow.python.util import tf_decorator

    from ...backend.task.fit.sources.graph_view import PYTHON

    tokens = {node.attr["token"].s.decode() for node in view.everything() if node.op in PYTHON}
    found: dict[str, Callable[..., Any]] = {}
    for token in sorted(tokens):
        function = script_ops._py_funcs.get(token)
        if function is None:
            raise InvalidInput(
                f"TensorFlow has already discarded a Python function ({token}) that the dataset calls. Keep a "
                "reference to the dataset that this one was derived from",
                field=field,
            )
        if isinstance(function, script_ops.EagerFunc):
            _, own = tf_decorator.unwrap(function._func)
            sent: Any = script_ops.EagerFunc(own, function._out_dtypes, False)
        else:
            _, own = tf_decorator.unwrap(function)
            sent = own
        try:
            with _WithoutWrapper(own):
                cloudpickle.dumps(sent)
        except Exception as error:
            name = f"{getattr(own, '__name__', own)!s:.100}"
            raise OnlyWhereMade(f"its Python function {name} cannot be pickled: {error!s:.200}", field) from error
        found[token] = sent
    return found


class _WithoutWrapper:
    """Detaches TensorFlow's wrapper from a function within a ``with`` block.

    The wrapper refers back to the function.
    """

    def __init__(self, function: Any) -> None:
        self._attributes = getattr(function, "__dict__", {})

    def __enter__(self) -> None:
        self._wrapper = self._attributes.pop("ag_dnc_wrapper__", None)

    def __exit__(self, *_: object) -> None:
        if self._wrapper is not None:
            self._attributes["ag_dnc_wrapper__"] = self._wrapper


def _files(view: Any) -> list[str]:
    """Return the files of this machine that a dataset refers to.

    The paths in the dataset are made absolute, because tasks run in other directories.
    """
    if not any(name in node.op for node in view.everything() for name in _FILES):
        return []
    import tensorflow as tf

    found: list[str] = []
    for node in view.graph.node:
        if node.op != "Const" or node.attr["dtype"].type != tf.string.as_datatype_enum:
            continue
        values = tf.make_ndarray(node.attr["value"].tensor)
        names = [os.fsdecode(value) for value in values.flat]
        if not names or not all(name and os.path.exists(name) for name in names):
            continue
        paths = [os.path.abspath(name) for name in names]
        if paths != names:
            array = np.array([os.fsencode(path) for path in paths], object).reshape(values.shape)
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(array, tf.string))
        found += paths
    return found


def _taken_out(view: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Replace large constants in the graph with placeholders, and return them, keyed by node name."""
    import tensorflow as tf

    found = {}
    for node in view.graph.node:
        tensor = node.attr["value"].tensor if node.op == "Const" else None
        if tensor is None or len(tensor.tensor_content) < _LARGE:
            continue
        dtype, shape = tf.as_dtype(tensor.dtype), tf.TensorShape(tensor.tensor_shape)
        if dtype.as_numpy_dtype is object:
            continue
        found[node.name] = np.frombuffer(bytearray(tensor.tensor_content), dtype.as_numpy_dtype).reshape(shape)
        name = node.name
        node.Clear()
        node.name, node.op = name, "Placeholder"
        node.attr["dtype"].type = dtype.as_datatype_enum
        node.attr["shape"].shape.CopyFrom(shape.as_proto())
    return found
