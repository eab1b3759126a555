"""``dtf.launch``: runs a function once for each set of arguments and collects the results in a table."""

from __future__ import annotations

import itertools
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..backend.task.trial import run_mapped
from ..errors import InvalidInput
from ..schema.restart import Restart
from ..schema.run import RunState
from ..schema.run_options import RunOptions
from ..schema.search_trial import TrialInfo
from .argument_errors import names_arguments
from .cluster_handle import ClusterHandle
from .run import Run
from .search.trial_runs import Ended, Next, Places, TrialRuns, new_id

if TYPE_CHECKING:
    import pandas as pd

    from .cluster import Cluster

OWN_COLUMNS = ("state", "error", "seconds", "run")
NOT_STARTED = "not started"


@names_arguments
def launch(
    cluster: Cluster,
    map_fun: Callable[..., Any],
    args_dict: Mapping[str, Sequence[Any]],
    grid: bool = False,
    *,
    devices_per_trial: float | None = None,
    tasks_per_trial: int = 1,
    name: str = "",
    environment: Mapping[str, str] | None = None,
    restart: Restart | bool = True,
    modules: Sequence[Any] = (),
) -> pd.DataFrame:
    """Call a function once for each set of arguments, in parallel on a cluster.

    Each call is a trial, with its own run. The cluster runs as many trials at a time as it has free slots. A trial that
    raises an error does not affect the others, but ten consecutive failures with the same error end the launch with a
    warning. An interrupt stops the running trials.

    Args:
        cluster: The cluster to run on.
        map_fun: Called as ``map_fun(**arguments)``.
        args_dict: A list of values for each argument. There is one trial for each position in the lists, so their
            lengths must be equal.
        grid: Run a trial for each combination of the values instead; the lists may differ in length.
        devices_per_trial: How many of the cluster's task slots each trial uses. With a fraction such as 0.5, trials
            share a slot. By default one slot for each task.
        tasks_per_trial: The number of tasks of each trial.
        name: The name of the trials. By default the function's name.
        environment: Environment variables for the tasks.
        restart: What happens when a task dies or freezes. By default the trial starts again.
        modules: Paths of your own modules and packages, or imported modules, to send along.

    Returns:
        A DataFrame with a row for each trial, in order. Its columns are the arguments, the result (``result``, or a
        column for each key if the function returns a dict, prefixed with ``result.`` if its name is taken), ``state``,
        ``error``, ``seconds`` and ``run`` (the id of the run).

    Raises:
        InvalidInput: If the lists differ in length, or an argument has the name of one of the other columns.
        Unavailable: If the cluster is too small for even one trial.
        ClusterLost: If the cluster was lost.

    Example:
        >>> def train(rate, units):
        ...     return {"loss": ...}
        >>> table = dtf.launch(cluster, train, {"rate": [0.1, 0.01], "units": [32, 64]})
    """
    if not isinstance(cluster, ClusterHandle):
        raise InvalidInput(
            f"`cluster` must be a dtf.Cluster, such as dtf.connect(...) returns, got {cluster!r:.200}", field="cluster"
        )
    if not callable(map_fun):
        raise InvalidInput(f"`map_fun` must be a function, got {map_fun!r:.200}", field="map_fun")
    arguments = combined(args_dict, grid)
    places = Places.of(devices_per_trial, tasks_per_trial)
    options = RunOptions.among({"environment": environment, "restart": restart})
    cluster.wait_ready()
    called = name or cluster._run_name(getattr(map_fun, "__name__", "launch"))
    source = _Listed(map_fun, arguments)
    runs = TrialRuns(cluster, source, called, options, places, "trial", modules=modules, ahead=1)
    runs.search = TrialInfo(
        search=new_id(), name=called, number=0, parameters=list(arguments[0]) if arguments else [], most=len(arguments)
    )
    runs.drive()
    if runs.message:
        left = sum(number not in source.ended_trials for number in range(len(arguments)))
        warnings.warn(f"{runs.message}. {left} of {len(arguments)} trials were not started", stacklevel=3)
    return _table(arguments, source.ended_trials)


def combined(args_dict: Any, grid: bool) -> list[dict[str, Any]]:
    """Return the arguments of each trial, as a list of dicts. Raises InvalidInput."""
    if not isinstance(args_dict, Mapping) or not args_dict:
        raise InvalidInput(f"`args_dict` must map arguments to lists, got {args_dict!r:.200}", field="args_dict")
    lists = {}
    for argument, values in args_dict.items():
        if not isinstance(argument, str) or not argument.isidentifier():
            raise InvalidInput(
                f"The keys of `args_dict` must be argument names, got {argument!r:.100}", field="args_dict"
            )
        if argument in OWN_COLUMNS:
            raise InvalidInput(
                f"The keys of `args_dict` must not include {', '.join(OWN_COLUMNS[:-1])} or {OWN_COLUMNS[-1]}, which "
                f"are other columns of the table, got {argument!r}",
                field="args_dict",
            )
        if isinstance(values, (str, bytes, Mapping)) or not hasattr(values, "__iter__"):
            raise InvalidInput(f"`args_dict[{argument!r}]` must be a list, got {values!r:.200}", field="args_dict")
        lists[argument] = list(values)
    lengths = {argument: len(values) for argument, values in lists.items()}
    if not grid and len(set(lengths.values())) > 1:
        raise InvalidInput(
            "The lists in `args_dict` must have equal lengths unless grid=True requests all combinations, got the "
            f"lengths {lengths}",
            field="args_dict",
        )
    rows = itertools.product(*lists.values()) if grid else zip(*lists.values(), strict=True)
    return [dict(zip(lists, row, strict=True)) for row in rows]


class _Listed:
    """Supplies the trials of a list, numbered by position."""

    def __init__(self, map_fun: Callable[..., Any], arguments: Sequence[dict[str, Any]]) -> None:
        self._left = deque(Next(number, (run_mapped, (map_fun, each)), each) for number, each in enumerate(arguments))
        self.ended_trials: dict[int, Ended] = {}

    def next(self) -> Next | None:
        return self._left.popleft() if self._left else None

    def started(self, number: int, run: Run) -> None:
        pass

    def reported(self, number: int, points: Sequence[tuple[float, float]]) -> bool:
        return False

    def ended(self, trial: Ended) -> None:
        self.ended_trials[trial.number] = trial

    def cut_short(self, number: int) -> None:
        pass

    def unwanted(self, number: int) -> None:
        pass

    def more(self, count: int) -> None:
        pass


def _table(arguments: Sequence[dict[str, Any]], ended: Mapping[int, Ended]) -> pd.DataFrame:
    import pandas as pd

    rows = []
    for number, given in enumerate(arguments):
        trial = ended.get(number)
        row = dict(given)
        if trial is not None and trial.state is RunState.SUCCEEDED and not trial.error:
            found = trial.result if isinstance(trial.result, dict) else {"result": trial.result}
            row |= {f"result.{key}" if key in given or key in OWN_COLUMNS else key: found[key] for key in found}
        state = NOT_STARTED if trial is None else "failed" if trial.error else trial.state.value
        own: tuple[Any, ...] = (state, "", None, "")
        if trial is not None:
            own = state, trial.error, trial.seconds, trial.info.id
        rows.append(row | dict(zip(OWN_COLUMNS, own, strict=True)))
    results = dict.fromkeys(column for row in rows for column in row)
    first = [column for column in results if column not in OWN_COLUMNS]
    table: pd.DataFrame = pd.DataFrame(rows, columns=[*first, *OWN_COLUMNS])
    return table
