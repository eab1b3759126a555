"""``Runs``: a list of runs that is a table as well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..schema.run import RunInfo
from .fit_run import held
from .run import Run

if TYPE_CHECKING:
    import pandas as pd

FACTS = (
    "id",
    "name",
    "state",
    "kind",
    "cluster",
    "strategy",
    "search",
    "tasks",
    "created",
    "seconds",
    "model",
    "weights",
    "data",
    "tags",
    "note",
    "commit",
    "message",
)
"""The columns of every table of runs; those of parameters, metrics and versions come behind them."""


class Runs(list[Run]):
    """Runs, newest first: a list, which programs go through, with ``frame()``, a DataFrame, which notebooks show.

    It is no DataFrame itself: a run is held to be stopped, waited for and shown, and ``dtf.runs()[0]`` is one.
    """

    def __init__(self, infos: Sequence[RunInfo]) -> None:
        super().__init__(map(held, infos))
        self._infos = list(infos)

    def frame(self) -> pd.DataFrame:
        """A row for each run, as it was when this list was made, with its id as the index.

        Columns: its ``name``, ``state``, ``kind``, ``cluster``, ``strategy``, ``search`` (the name of the one that it
        is a trial of), ``tasks`` (a number), ``created`` (a time), ``seconds`` that it took, ``model``, ``weights``,
        ``data``, ``tags``, ``note``, ``commit`` and ``message``; ``parameters.batch_size`` and so on of what was
        chosen, ``last.loss`` and ``best.loss`` of the metrics, ``versions.TensorFlow`` of packages. What a run has not
        got is NaN.
        """
        import pandas as pd

        table: pd.DataFrame = pd.DataFrame([row(info) for info in self._infos])
        if table.empty:
            table = pd.DataFrame(columns=list(FACTS))
        table["created"] = pd.to_datetime(table["created"], unit="s", utc=True)
        indexed: pd.DataFrame = table.set_index("id")
        return indexed

    def _repr_html_(self) -> str:
        frame = self.frame()
        has = {column: frame[column].astype(bool).any() for column in frame}
        shown = [column for column in frame if has[column] and not str(column).startswith("versions.")]
        return str(frame[shown].to_html(max_rows=60, notebook=True))


def row(info: RunInfo) -> dict[str, Any]:
    """What a table has of a run: plain values by the names of columns."""
    origin = info.origin
    took = info.ended - info.started if info.ended is not None and info.started is not None else None
    return {
        "id": info.id,
        "name": info.name,
        "state": info.state.value,
        "kind": info.kind,
        "cluster": info.cluster,
        "strategy": info.strategy,
        "search": info.trial.name if info.trial is not None else "",
        "tasks": sum(info.jobs.values()),
        "created": info.created,
        "seconds": took,
        "model": origin.model,
        "weights": origin.weights,
        "data": origin.data,
        "tags": ", ".join(info.marks.tags),
        "note": info.marks.note,
        "commit": origin.commit,
        "message": info.message,
        **{f"parameters.{name}": value for name, value in info.parameters.items()},
        **{f"last.{name}": value for name, value in info.headline.items()},
        **{f"best.{name}": best.value for name, best in info.best.items()},
        **{f"versions.{name}": version for name, version in origin.versions.items()},
    }
