"""``Runs``: a list of runs that can be turned into a DataFrame."""

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
"""The columns that every table of runs has; columns for parameters, metrics and versions follow them."""


class Runs(list[Run]):
    """A list of runs, newest first. Notebooks show it as a table.

    Its items are ``Run`` objects, which can be stopped, waited for and shown.

    Example:
        >>> dtf.runs()[0].show()
    """

    def __init__(self, infos: Sequence[RunInfo]) -> None:
        super().__init__(map(held, infos))
        self._infos = list(infos)

    def frame(self) -> pd.DataFrame:
        """Return the runs, as they were when this list was created, as a DataFrame.

        Returns:
            A DataFrame with a row for each run, indexed by run id. Its columns are ``name``, ``state``, ``kind``,
            ``cluster``, ``strategy``, ``search`` (the name of the search that the run is a trial of), ``tasks`` (their
            number), ``created`` (a timestamp), ``seconds`` (duration), ``model``, ``weights`` (the number of the
            model's parameters), ``data``, ``tags``, ``note``, ``commit`` and ``message``, followed by
            ``parameters.batch_size`` and so on for settings, ``last.loss`` and ``best.loss`` and so on for metrics, and
            ``versions.TensorFlow`` and so on for packages. Missing values are NaN.
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
    """Return the row of a run in a table: plain values keyed by column name."""
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
