"""Tests of launches and searches on a real cluster of two workers."""

from __future__ import annotations

import math
import os
import pty
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import cloudpickle
import pytest

import jupyter_dtf as dtf
from jupyter_dtf.backend.task.trial import run_trial
from jupyter_dtf.client import display_hooks
from jupyter_dtf.client.search import trial_runs
from jupyter_dtf.client.search.space import as_space, combinations
from jupyter_dtf.client.search.study import as_pruner, as_sampler, enqueue_new, open_study
from jupyter_dtf.client.search.trials import RUN
from jupyter_dtf.client.session import session
from jupyter_dtf.client.submitting import submit
from jupyter_dtf.errors import Conflict, InvalidInput, NotFound, RunFailed, Unavailable
from jupyter_dtf.notebook.search_display import SEARCH_MIME
from jupyter_dtf.notebook.shown_here import Notebook
from jupyter_dtf.schema.events import PRUNED, Note
from jupyter_dtf.schema.run import RunState
from jupyter_dtf.schema.search_trial import SearchRequest

from ...patience import left_s, until

pytestmark = pytest.mark.module_directories
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module")
def cluster(no_process_left_by_module: None) -> Iterator[dtf.Cluster]:
    """Start a cluster of two workers, each of which has one thread for its trials."""
    with dtf.Cluster(jobs={"worker": 2, "ps": 1}, name="searched", threads_per_host=2) as shared:
        yield shared
    session().close()


@pytest.fixture(autouse=True)
def nothing_goes_on(cluster: dtf.Cluster) -> Iterator[None]:
    """Stop what a failed test has left running: its trials occupy the slots for which the next test would wait."""
    yield
    for search in cluster.searches:
        if not search.has_ended:
            search.stop()
            search.wait(left_s())
    for run in cluster.runs:
        if not run.info.state.is_final:
            run.stop(now=True)
            run.wait(left_s())


def most_at_once(times: list[tuple[float, float]]) -> int:
    return max(sum(begin <= moment < end for begin, end in times) for moment, _ in times)


def add(x: int, y: int) -> Any:
    if x == 3:
        raise ValueError(f"not {x}")
    return {"sum": x + y, "x": "clashes"}


def meet(number: int, where: str) -> tuple[float, float]:
    """Wait until the other trial of the pair has begun, for ever if two trials never run at the same time. Return the
    times at which this one began and ended.
    """
    began = time.time()
    (Path(where) / str(number)).touch()
    while not (Path(where) / str(number ^ 1)).exists():
        time.sleep(0.01)
    return began, time.time()


def exits_late(number: int, where: str) -> None:
    """Succeed, but let the process end only when the next trial has begun."""
    (Path(where) / str(number)).touch()
    if number == 0:
        stream: Any = sys.stdout

        def flush() -> None:  # called one last time, after everything else
            type(stream).flush(stream)
            while not (Path(where) / "1").exists():
                time.sleep(0.01)

        sys.stdout = SimpleNamespace(flush=flush, write=stream.write, fileno=stream.fileno)


def test_launch(cluster: dtf.Cluster, tmp_path: Path) -> None:
    table = dtf.launch(cluster, add, {"x": [1, 2, 3, 4], "y": [10, 20, 30, 40]})
    assert table["state"].tolist() == ["succeeded", "succeeded", "failed", "succeeded"]
    assert table["sum"].tolist()[:2] == [11, 22]
    assert table["sum"].isna().tolist() == [False, False, True, False]
    assert table["result.x"][0] == "clashes"
    assert table["error"][2] == "ValueError: not 3"

    met = dtf.launch(cluster, meet, {"number": list(range(6)), "where": [str(tmp_path)] * 6})
    assert set(met["state"]) == {"succeeded"}
    assert most_at_once(met["result"].tolist()) == 2  # no more than there are slots


def test_a_place_is_free_when_its_program_has_ended(tmp_path: Path) -> None:
    """The next trial starts while the process of the previous one is still exiting."""
    with dtf.Cluster(jobs={"worker": 1}, name="one-place") as one:
        table = dtf.launch(one, exits_late, {"number": [0, 1, 2], "where": [str(tmp_path)] * 3})
    assert table["state"].tolist() == ["succeeded"] * 3


def fails(x: int) -> None:
    raise RuntimeError(f"always, also with {x}")


def test_the_same_error_ten_times_ends_a_launch(cluster: dtf.Cluster) -> None:
    with pytest.warns(
        UserWarning, match="10 trials in a row failed with the same error: RuntimeError: always, also with"
    ):
        table = dtf.launch(cluster, fails, {"x": range(30)})
    assert table["state"].tolist().count("failed") >= 10
    assert table["state"].tolist()[-1] == "not started"


def test_a_trial_takes_as_many_places_as_it_says(cluster: dtf.Cluster, tmp_path: Path) -> None:
    def threads(params: dict[str, Any], ctx: Any) -> int:
        began = time.time()
        time.sleep(0.2)  # long enough to overlap with the other trial, if both ran at the same time
        (tmp_path / f"{ctx.size}-{params['a']}").write_text(f"{began} {time.time()}")
        return int(ctx.threads * 100 + ctx.size)

    search = cluster.search(threads, {"a": [1, 2]}, sampler="grid", objective="found", devices_per_trial=2)
    assert search.trials["found"].tolist() == [201, 201]  # one task with the threads of both slots
    search = cluster.search(threads, {"a": [1, 2]}, sampler="grid", objective="found", tasks_per_trial=2)
    assert search.trials["found"].tolist() == [102, 102]
    first, second = sorted(tuple(map(float, path.read_text().split())) for path in tmp_path.glob("2-*"))
    assert first[1] <= second[0]
    with pytest.raises(Unavailable, match="The cluster has 2"):
        cluster.search(threads, {"a": [1]}, sampler="grid", objective="found", tasks_per_trial=3)


def slopes(params: dict[str, Any], ctx: Any) -> None:
    """Report a constant loss. If it is greater than 5, do not return until the trial is ended."""
    for step in range(3):
        ctx.report(step, loss=params["x"])
    while params["x"] > 5:
        time.sleep(0.01)


def test_a_trial_is_pruned_while_it_runs(cluster: dtf.Cluster) -> None:
    from optuna.pruners import ThresholdPruner

    space = {"x": [1, 9, 2, 8]}
    search = cluster.search(slopes, space, sampler="grid", objective="loss", pruner=ThresholdPruner(upper=5))
    assert dict(zip(search.trials["x"], search.trials["state"], strict=True)) == {
        1: "complete", 2: "complete", 8: "pruned", 9: "pruned",
    }  # fmt: skip
    assert search.best.params == {"x": 1}
    assert search.best.value == 1
    assert search.trial(1).run is not None
    assert search.trial(1).run.info.state is RunState.STOPPED  # type: ignore[union-attr]
    assert search.status == "finished"


def gets_higher(params: dict[str, Any], ctx: Any) -> dict[str, Any]:
    """Report the same loss in all trials, and return another height than the reported ones, unless pruned."""
    for step in (10, 20, 30):
        ctx.report(step, loss=9.0, height=params["x"] + step / 100)
    while params["x"] < 5:
        time.sleep(0.01)
    return {"height": params["x"] * 2, "else": "text"} if params["x"] < 8 else {"height": "no number"}


def test_viewers_are_told_all_of_a_search(cluster: dtf.Cluster) -> None:
    from optuna.pruners import ThresholdPruner

    space = {"x": [7, 1, 8], "kind": [("a", 1)]}
    pruner = ThresholdPruner(lower=5)
    with pytest.warns(UserWarning, match="contains"):  # Optuna warns of a choice that a storage cannot hold
        search = cluster.search(
            gets_higher, space, sampler="grid", objective="height", direction="maximize", pruner=pruner
        )
    runs = [run.info for run in dtf.runs() if run.info.trial is not None and run.info.trial.search == search.id]
    stored = session().hub.store
    assert stored is not None
    until(
        lambda: all(stored.run(run.id).state.is_final and stored.run(run.id).sparkline for run in runs),
        "all of it to be kept",
    )
    for infos in (runs, [stored.run(run.id) for run in runs]):  # live, and from the store
        found = {info.parameters["x"]: info for info in infos}
        assert found.keys() == {1, 7, 8}
        for info in infos:
            assert info.trial is not None
            assert (info.trial.name, info.trial.most) == (search.name, 3)
            assert info.trial.objectives == {"height": "maximize"}
            assert (info.trial.parameters, info.trial.in_words) == (["x", "kind"], ["kind"])
            assert info.parameters["kind"] == "('a', 1)"
            assert search.trial(info.trial.number).params["x"] == info.parameters["x"]
            assert next(iter(info.headline)) == "height"  # rather than the loss
            assert info.sparkline_steps[0] == 10
        assert found[7].values == {"height": 14.0}
        assert found[7].sparkline == pytest.approx([7.1, 7.2, 7.3])
        assert found[7].sparkline_steps == [10, 30]
        assert {x: info.pruned for x, info in found.items()} == {1: True, 7: False, 8: False}
        assert found[1].state is RunState.STOPPED
        assert math.isnan(found[8].values["height"])  # failed: no reported value replaces it
    assert dict(zip(search.trials["x"], search.trials["state"], strict=True)) == {
        1: "pruned",
        7: "complete",
        8: "failed",
    }
    notes = [
        event for _, event in session().hub.events(found[1].id) if isinstance(event, Note) and event.mark == PRUNED
    ]
    assert [note.title[:17] for note in notes] == ["Pruned after step"]


def test_who_goes_on_with_a_search_is_seen_in_it(cluster: dtf.Cluster, tmp_path: Path) -> None:
    def same(params: dict[str, Any], ctx: Any) -> float:
        return float(params["x"])

    def go_on(trials: int) -> Any:
        storage = f"sqlite:///{tmp_path / 'study.db'}"
        space = {"x": [1, 2]}
        return cluster.search(
            same, space, trials=trials, sampler="grid", objective="y", storage=storage, study_name="s"
        )

    first, second = go_on(1), go_on(2)
    assert first.id == second.id
    of_it = [run.info.trial for run in dtf.runs() if run.info.trial and run.info.trial.search == first.id]
    assert sorted(trial.number for trial in of_it) == [0, 1]

    table = dtf.launch(cluster, add, {"x": [1], "y": [2]})
    listed = dtf.run(table["run"][0]).info.trial
    assert listed is not None
    assert (listed.objectives, listed.parameters, listed.most) == ({}, ["x", "y"], 1)
    assert listed.search != first.id


def test_a_search_is_shown_in_a_terminal_and_in_a_notebook(
    cluster: dtf.Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def square(params: dict[str, Any], ctx: Any) -> float:
        return float(params["x"] ** 2)

    def searched() -> Any:
        return cluster.search(square, {"x": [3, 1, 2]}, sampler="grid", objective="area")

    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as screen, ThreadPoolExecutor(1) as reading:
        read = reading.submit(read_until, master, b"finished")
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", screen)
            patch.setenv("TERM", "xterm")
            search = searched()
        shown = read.result(left_s()).decode()
    os.close(master)
    assert "finished  3/3 trials  best area 1 (trial 1)" in shown
    assert "\x1b[J" in shown  # the line is rewritten in place

    search.show()
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[1] == ["#", "state", "area", "x", "time"]
    assert [row[:-2] for row in rows[2:]] == [
        ["*", "1", "complete", "1", "1"],
        ["2", "complete", "4", "2"],
        ["0", "complete", "9", "3"],
    ]

    bundles: list[dict[str, Any]] = []

    class Handle:
        def update(self, bundle: dict[str, Any], *, raw: bool) -> None:
            bundles.append(bundle)

    def display(bundle: dict[str, Any], *, raw: bool, display_id: bool) -> Handle:
        bundles.append(bundle)
        return Handle()

    monkeypatch.setattr("IPython.display.display", display)
    monkeypatch.setattr(display_hooks, "find", Notebook)
    search = searched()  # shown while waiting for it
    first, last = bundles
    assert first[SEARCH_MIME] == last[SEARCH_MIME] == {"search": search.id}
    ElementTree.fromstring(first["image/svg+xml"])
    texts = [
        text.text for text in ElementTree.fromstring(last["image/svg+xml"]).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert search.line() in texts
    assert "★ 1" in texts
    assert last["text/plain"] == search.text()
    search.show()
    assert bundles[2:] == [last]


def read_until(terminal: int, wanted: bytes) -> bytes:
    """Return what a terminal has shown, up to the end of the line that contains ``wanted``."""
    found = b""
    while wanted not in found or not found.endswith(b"\n"):
        found += os.read(terminal, 4096)
    return found


def until_heard_of(search: dtf.Search) -> None:
    """Wait until the session knows a run of the search. A trial may begin before viewers know of it."""
    until(lambda: search.id in [info.trial.search for info in session().hub.runs() if info.trial], lambda: search)


def test_who_looks_at_a_search_has_it_stopped_or_adds_trials(cluster: dtf.Cluster, tmp_path: Path) -> None:
    def waits(params: dict[str, Any], ctx: Any) -> float:
        (tmp_path / f"begun-{ctx.run_id}").touch()
        while not (tmp_path / "on").exists():
            time.sleep(0.01)
        return float(params["x"])

    def ask(search: dtf.Search, **what: Any) -> None:
        session().call(lambda fleet: fleet.ask_search(search.id, SearchRequest(**what)))

    search = cluster.search(waits, {"x": (0.0, 1.0)}, trials=2, objective="area", sampler="random", wait=False)
    until(lambda: len(list(tmp_path.glob("begun-*"))) == 2, lambda: search)
    until_heard_of(search)
    ask(search, more=2)
    until(lambda: search.most == 4, lambda: search)
    (tmp_path / "on").touch()
    search.wait(left_s())
    assert search.trials["state"].tolist() == ["complete"] * 4
    runs = [dtf.Run(run_id).info for run_id in search.trials["run"]]
    assert {info.trial.most + info.trial.asked_more for info in runs if info.trial} <= {2, 4}
    with pytest.raises(Conflict, match="none of its trials is active"):
        ask(search, stop=True)
    with pytest.raises(NotFound):
        session().call(lambda fleet: fleet.ask_search("nothing", SearchRequest(stop=True)))

    (tmp_path / "on").unlink()
    grid = cluster.search(waits, {"x": [1, 2, 3]}, sampler="grid", objective="area", wait=False)
    until(lambda: "running" in grid.trials["state"].tolist(), lambda: grid)
    until_heard_of(grid)
    with pytest.raises(Conflict, match="only to a search that was started with `trials`"):
        ask(grid, more=1)
    ask(grid, stop=True)
    grid.wait(left_s())
    assert (grid.status, grid.message) == ("stopped", "It was stopped by a viewer")
    assert "stopped" in grid.trials["state"].tolist()
    for stop, more in ((False, 0), (True, 1), (False, -1)):
        with pytest.raises(InvalidInput):
            SearchRequest(stop, more)


def dies_once(params: dict[str, Any], ctx: Any) -> dict[str, float]:
    if params["x"] == 1 and ctx.attempt == 1:
        ctx.report(0, loss=7.0)
        os.kill(os.getpid(), signal.SIGKILL)
    if params["x"] == 2:
        raise ValueError("not two")
    return {"loss": params["x"] + ctx.attempt / 10, "size": -params["x"]}


def test_failures_and_several_objectives(cluster: dtf.Cluster) -> None:
    search = cluster.search(dies_once, {"x": [1, 2, 3]}, sampler="grid", objective=["loss", "size"])
    by_x = search.trials.set_index("x")
    assert by_x.loc[2, "state"] == "failed"
    assert by_x.loc[2, "error"] == "ValueError: not two"
    assert by_x.loc[1, ["loss", "size"]].tolist() == [1.2, -1]  # in the second attempt
    assert sorted(trial.params["x"] for trial in search.best_trials) == [1, 3]
    with pytest.raises(NotFound, match="best_trials"):
        _ = search.best
    with pytest.raises(RunFailed, match="not two"):
        cluster.search(dies_once, {"x": [2]}, sampler="grid", objective="loss")


def fits(params: dict[str, Any], ctx: Any) -> None:
    import keras
    import numpy as np

    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(params["rate"]), "mse")
    x = np.ones((8, 4), "float32")
    model.fit(x, x[:, :1], validation_data=(x, x[:, :1]), epochs=3, verbose=0)


def test_a_fit_inside_reports_by_itself(cluster: dtf.Cluster) -> None:
    search = cluster.search(fits, {"rate": [1e-6, 0.01]}, sampler="grid")
    assert search.best.params == {"rate": 0.01}
    points = search.best.run.metrics.query("metric == 'val_loss'")  # type: ignore[union-attr]
    assert points["step"].tolist() == [0, 1, 2]
    assert search.best.value == points["value"].tolist()[-1]


def digits(params: dict[str, Any], ctx: Any) -> None:
    import keras
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    keras.utils.set_random_seed(params["units"])
    model = keras.Sequential(
        [keras.Input((64,)), keras.layers.Dense(params["units"], "relu"), keras.layers.Dense(10, "softmax")]
    )
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(x[:1500] / 16, y[:1500], batch_size=64, epochs=4, validation_data=(x[1500:] / 16, y[1500:]), verbose=0)


def test_the_best_trials_as_one_model(cluster: dtf.Cluster) -> None:
    import numpy as np
    from sklearn.datasets import load_digits

    search = cluster.search(digits, {"units": [2, 16, 32, 48]}, sampler="grid", keep_models=2)
    best = search.trials.sort_values("val_loss")["number"].tolist()
    assert search.trial(best[-1]).params == {"units": 2}
    x, y = load_digits(return_X_y=True)
    unseen = (x[1500:] / 16).astype("float32")
    together = search.ensemble(2).predict(unseen, verbose=0)
    parts = [search.trial(number).model.predict(unseen, verbose=0) for number in best[:2]]
    np.testing.assert_allclose(together, (parts[0] + parts[1]) / 2, atol=1e-6)
    losses = [float(-np.log(part[np.arange(len(y) - 1500), y[1500:]]).mean()) for part in parts]
    np.testing.assert_allclose(losses, search.trials.sort_values("val_loss")["val_loss"][:2], rtol=1e-4)
    with pytest.raises(NotFound, match=f"Trials without a model.*: {best[2]}"):
        search.ensemble(3)
    with pytest.raises(NotFound, match="keep_models"):
        _ = search.trial(best[-1]).model


def moves_half_way(params: dict[str, Any], ctx: Any) -> dict[str, Any]:
    """Train for one interval: move towards 1 from where the parent ended, by the fraction ``rate``."""
    step, began = ctx.restore() or (0, 0.0)
    at = began + params["rate"] * (1 - began)
    ctx.checkpoint(step + 1, at)
    return {"distance": 1 - at, "began": began, "ended": at, "step": step + 1}


def test_a_population_goes_on_from_checkpoints(cluster: dtf.Cluster) -> None:
    plan = dtf.PopulationBased(population=4, resample=0.0)
    search = cluster.search(
        moves_half_way, {"rate": (0.01, 0.5)}, trials=12, objective="distance", sampler=plan, seed=3
    )
    trials = [search.trial(number) for number in range(12)]
    told = [trial.run.result()[0] for trial in trials]  # type: ignore[union-attr]
    begun = [trial for trial in trials if trial.parent is None]
    assert sorted(trial.member for trial in begun) == [0, 1, 2, 3]  # type: ignore[type-var]
    assert [told[trial.number]["began"] for trial in begun] == [0.0] * 4
    adopted = 0
    for trial in trials:
        if trial.parent is None:
            continue
        parent = trials[trial.parent]
        assert told[trial.number]["began"] == told[parent.number]["ended"]
        assert told[trial.number]["step"] == told[parent.number]["step"] + 1
        if parent.member == trial.member:
            assert trial.params == parent.params
        else:
            adopted += 1
            factor = trial.params["rate"] / parent.params["rate"]
            assert any(abs(factor - one) < 1e-9 for one in (0.8, 1.2)) or trial.params["rate"] == 0.5
    assert adopted > 0
    assert {"member", "generation", "parent"} <= set(search.trials.columns)
    search = cluster.search(forgets, {"rate": (0.01, 0.5)}, trials=8, objective="distance", sampler=plan)
    assert search.trials["state"].tolist() == ["complete"] * 4 + ["failed"] * 4
    assert all("ctx.restore()" in search.trial(number).error for number in range(4, 8))


def forgets(params: dict[str, Any], ctx: Any) -> float:
    ctx.checkpoint(1, 0.0)
    return float(params["rate"])


def waits_for(params: dict[str, Any], ctx: Any) -> float:
    while params["x"] and not Path(params["go"]).exists():
        time.sleep(0.01)
    return float(params["x"])


def test_a_search_is_stopped_and_goes_on(cluster: dtf.Cluster, tmp_path: Path) -> None:
    go = tmp_path / "go"
    space = {"x": [0, 1, 2, 3], "go": [str(go)]}
    kept: dict[str, Any] = {"storage": f"sqlite:///{tmp_path / 'study.db'}", "study_name": "kept", "objective": "value"}

    search = cluster.search(waits_for, space, sampler="grid", wait=False, **kept)
    assert cluster.searches[0] is search
    until(lambda: "complete" in search.trials["state"].tolist(), lambda: search.trials)
    with pytest.raises(Conflict, match=f"the study 'kept', but process {os.getpid()}.* already drives it"):
        cluster.search(waits_for, space, sampler="grid", **kept)  # and it takes no trial away from the first search
    search.stop()
    search.wait(left_s())
    assert search.status == "stopped"
    assert search.best.params["x"] == 0
    assert "running" not in search.trials["state"].tolist()

    go.touch()
    search = cluster.search(waits_for, space, sampler="grid", direction="minimize", **kept)
    complete = search.trials.query("state == 'complete'")
    assert sorted(complete["x"]) == [0, 1, 2, 3]  # only those that were stopped are tried again
    with pytest.raises(InvalidInput, match="`trials` or `timeout` must be given"):
        cluster.search(waits_for, space, **kept)


def test_who_goes_on_after_a_death_runs_no_trial_twice(cluster: dtf.Cluster, tmp_path: Path) -> None:
    """Of a dead process's two trials, the one that has ended counts, and the running one is stopped and tried again."""
    go, storage = tmp_path / "go", f"sqlite:///{tmp_path / 'study.db'}"
    space = {"x": [0, 1], "go": [str(go)]}
    study = open_study("left", storage, as_sampler("grid", None), as_pruner(None), ["minimize"])
    enqueue_new(study, combinations(as_space(space)))
    runs = []
    for _ in range(2):
        asked = study.ask(fixed_distributions=as_space(space))
        job = (waits_for, asked.params, ["value"], False)
        runs.append(cluster.run(run_trial, job, jobs={"worker": 1}, wait=False))
        asked.set_user_attr(RUN, runs[-1].id)
    until(lambda: [run.status for run in runs] == ["succeeded", "running"], lambda: runs)
    search = cluster.search(
        waits_for, space, sampler="grid", storage=storage, study_name="left", objective="value", wait=False
    )
    until(lambda: runs[1].info.state.is_final, lambda: runs)
    assert runs[1].status == "stopped"
    go.touch()
    search.wait(left_s())
    assert search.trials["state"].tolist() == ["complete", "stopped", "complete"]
    assert search.trials["x"].tolist() == [0, 1, 1]
    assert search.trials["value"].tolist()[::2] == [0.0, 1.0]
    assert search.trial(0).run_id == runs[0].id


def test_what_ran_when_a_search_broke_off_is_tried_again(
    cluster: dtf.Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = tmp_path / "go"
    space = {"x": [1, 2, 3], "go": [str(go)]}
    kept: dict[str, Any] = {"storage": f"sqlite:///{tmp_path / 'study.db'}", "study_name": "kept", "objective": "value"}
    submitted: list[dtf.Run] = []

    def submit_one(*given: Any) -> dtf.Run:
        if submitted:
            raise Unavailable("no more")
        submitted.append(submit(*given))
        return submitted[0]

    with monkeypatch.context() as patched:
        patched.setattr(trial_runs, "submit", submit_one)
        search = cluster.search(waits_for, space, sampler="grid", wait=False, **kept)
        search.wait(left_s())
    assert (search.status, search.message) == ("failed", "no more")
    assert search.trials["state"].tolist() == ["stopped", "stopped", "waiting", "waiting", "waiting"]
    until(lambda: submitted[0].status == "stopped", lambda: submitted)
    go.touch()
    search = cluster.search(waits_for, space, sampler="grid", **kept)
    assert sorted(search.trials.query("state == 'complete'")["x"]) == [1, 2, 3]
    assert "running" not in search.trials["state"].tolist()


def test_a_trial_that_a_person_stopped_does_not_come_back(cluster: dtf.Cluster, tmp_path: Path) -> None:
    go = tmp_path / "go"
    space = {"x": [1, 2, 3, 4, 5, 6], "go": [str(go)]}
    kept: dict[str, Any] = {"storage": f"sqlite:///{tmp_path / 'study.db'}", "study_name": "kept", "objective": "value"}

    search = cluster.search(waits_for, space, sampler="grid", wait=False, **kept)
    until(lambda: search.trials["state"].tolist().count("running") == 4, lambda: search.trials)  # two wait for a slot
    search.stop(0)
    search.stop(5)  # which is not on the cluster yet
    until(lambda: search.trial(0).state == search.trial(5).state == "stopped", lambda: search.trials)
    search.stop()
    search.wait(left_s())
    with pytest.raises(NotFound, match="99"):
        search.stop(99)

    go.touch()
    search = cluster.search(waits_for, space, sampler="grid", **kept)
    assert search.trial(0).state == search.trial(5).state == "stopped"
    complete = search.trials.query("state == 'complete'")["x"]
    assert sorted([*complete, search.trial(0).params["x"], search.trial(5).params["x"]]) == [1, 2, 3, 4, 5, 6]


def test_a_timeout_ends_a_search(cluster: dtf.Cluster, tmp_path: Path) -> None:
    space = {"x": [1], "go": [str(tmp_path / "never")]}
    search = cluster.search(waits_for, space, objective="value", timeout=1.0)
    assert search.status == "stopped"
    assert search.message == "Its time limit was reached"
    assert set(search.trials["state"]) == {"stopped"}
