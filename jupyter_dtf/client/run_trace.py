"""``Trace``: the public handle of a trace, a record of which operations ran where and when."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..backend.records import chrome_trace
from ..schema.trace import TraceData, check_count, merge, task_of
from . import display_hooks

if TYPE_CHECKING:
    import pandas as pd


class Trace:
    """The operations and transfers of the steps that were traced, timed by the clocks of the machines that ran them.

    A notebook shows it as a timeline with a row for each device and arrows for the transfers.
    """

    def __init__(self, data: TraceData, values: Any = None) -> None:
        self.data = data
        self.values = values
        """The values that the fetches had in the last step; for ``servers.trace`` only."""

    @property
    def table(self) -> pd.DataFrame:
        """A DataFrame with a row for each execution of an operation.

        Columns: ``step``, ``op``, ``op_type``, ``task``, ``device``, ``start_us`` (microseconds since the first
        operation) and ``duration_us`` (microseconds).
        """
        import pandas as pd

        table: pd.DataFrame = pd.DataFrame(
            [
                (op.step, op.op, op.op_type, task_of(op.device), op.device, op.start_us, op.duration_us)
                for op in self.data.ops
            ],
            columns=["step", "op", "op_type", "task", "device", "start_us", "duration_us"],
        )
        return table

    @property
    def transfers(self) -> pd.DataFrame:
        """A DataFrame with a row for each tensor that was sent between tasks.

        Columns: ``step``, ``tensor``, ``source`` and ``target`` (devices), ``bytes``, ``start_us`` and ``duration_us``
        (microseconds).
        """
        import pandas as pd

        table: pd.DataFrame = pd.DataFrame(
            [
                (one.step, one.tensor, one.source, one.target, one.bytes, one.start_us, one.duration_us)
                for one in self.data.transfers
            ],
            columns=["step", "tensor", "source", "target", "bytes", "start_us", "duration_us"],
        )
        return table

    @property
    def warnings(self) -> list[str]:
        """A sentence for each operation that did not run where it was placed, or was replaced by another one."""
        return list(self.data.warnings)

    def save(self, path: str | Path) -> Path:
        """Save the trace in Chrome's trace format, which chrome://tracing and ui.perfetto.dev open.

        Args:
            path: The JSON file to write.

        Returns:
            The path.
        """
        path = Path(path)
        path.write_text(json.dumps(chrome_trace.document(self.data)))
        return path

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return display_hooks.here().trace_bundle(self)

    def __repr__(self) -> str:
        data = self.data
        devices = len({op.device for op in data.ops})
        parts = [f"{len(data.ops)} operations on {devices} device{'' if devices == 1 else 's'}"]
        if data.transfers:
            parts.append(f"{len(data.transfers)} transfer{'' if len(data.transfers) == 1 else 's'}")
        head = f"<Trace: {', '.join(parts)}>"
        return "\n".join([head, *(f"Warning: {warning}" for warning in data.warnings)])


def trace_session(
    target: str, fetches: Any, feed_dict: Mapping[Any, Any] | None = None, *, graph: Any = None, steps: int = 1
) -> Trace:
    """Run ``fetches`` of a ``tf.compat.v1`` graph on the servers at ``target`` and record which operations ran where.

    If ``graph`` is None, the default graph is used. The fetches run ``steps`` times in a new session, with the
    variables that the servers hold. Raises InvalidInput and TensorFlow's errors.
    """
    steps = check_count(steps)
    import tensorflow as tf

    from ..backend.task.trace import session_trace as traced

    values, parts = None, []
    with tf.compat.v1.Session(target, graph=graph) as session:
        for step in range(1, steps + 1):
            values, part = traced.run(session, fetches, feed_dict, step)
            parts.append(part)
    return Trace(merge(parts), values)
