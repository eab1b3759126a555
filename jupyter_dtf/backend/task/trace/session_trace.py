"""Runs steps of a ``tf.compat.v1.Session`` with a full trace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from ....schema.trace import TraceData
from .placed import displaced
from .step_stats import rows


def run(session: Any, fetches: Any, feed_dict: Mapping[Any, Any] | None, step: int) -> tuple[Any, TraceData]:
    """Run ``session.run(fetches, feed_dict)``. Returns its result and the trace."""
    metadata = tf.compat.v1.RunMetadata()
    values = session.run(fetches, feed_dict, options=full_trace(), run_metadata=metadata)
    data = rows(metadata, step)
    data.warnings = warnings(metadata, session.graph, fetches, feed_dict)
    return values, data


def full_trace(options: Any = None, *, profiling: bool = False) -> Any:
    """Return a copy of ``options`` that also makes TensorFlow trace the step on all tasks and return the graphs that
    ran.

    ``profiling`` is whether the session runs in this process while its profiler is active. A process has only one.
    """
    traced = tf.compat.v1.RunOptions()
    if options is not None:
        traced.CopyFrom(options)
    traced.trace_level = traced.SOFTWARE_TRACE if profiling else traced.FULL_TRACE
    traced.output_partition_graphs = True
    return traced


def warnings(metadata: Any, graph: Any, fetches: Any, feed_dict: Mapping[Any, Any] | None) -> list[str]:
    """Return a sentence for each operation that did not run as placed, according to the RunMetadata of one step."""
    fetched = _operations(graph, tf.nest.flatten(fetches, expand_composites=True))
    fed = _operations(graph, tf.nest.flatten(list(feed_dict or ()), expand_composites=True))
    return [found.text for found in displaced(graph.as_graph_def(), metadata.partition_graphs, fetched, fed)]


def _operations(graph: Any, leaves: Iterable[Any]) -> set[str]:
    """Return the names of these operations, or of the operations that produce these tensors."""
    elements = [graph.as_graph_element(leaf) for leaf in leaves]
    return {element.op.name if isinstance(element, tf.Tensor) else element.name for element in elements}
