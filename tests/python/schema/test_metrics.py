from __future__ import annotations

import math

import pytest

from jupyter_dtf.schema.metrics import HOST_FIGURES, HostFigure, family, headline, host_figure, in_words, is_load


@pytest.mark.parametrize(
    ("metric", "names", "expected"),
    [
        ("loss", {"loss"}, "loss"),
        ("val_loss", {"val_loss"}, "loss"),
        ("epoch_loss", {"epoch_loss", "loss"}, "loss"),
        ("running_auc", {"running_auc", "epoch_auc"}, "auc"),
        ("epoch_auc", {"epoch_auc", "val_auc"}, "auc"),
        ("epoch_time", {"epoch_time", "loss"}, "epoch_time"),
        ("running_mean", {"running_mean"}, "running_mean"),
        ("val_", {"val_"}, "val_"),
        ("epoch_", {"epoch_", "loss"}, "epoch_"),
    ],
)
def test_a_family_is_a_metric_and_its_forms(metric: str, names: set[str], expected: str) -> None:
    assert family(metric, names) == expected


def test_a_headline_begins_with_the_loss_and_has_nothing_of_the_machine() -> None:
    latest = {"cpu": 1.0, "memory_bytes": 2.0, "step_seconds": 0.1, "acc": 0.5, "val_loss": 3.0, "loss": 2.0, "a": 1.0}
    assert list(headline({**latest, "b": 0.0}).items()) == [("loss", 2.0), ("val_loss", 3.0), ("acc", 0.5), ("a", 1.0)]
    assert headline({"cpu": 0.97, "memory_bytes": 1e9, "learning_rate": 0.1}) == {}
    assert headline({"cpu": 0.97, "score": 7.0}) == {"score": 7.0}


def test_a_trial_s_objectives_come_before_its_loss() -> None:
    latest = {"loss": 2.0, "acc": 0.5, "val_loss": 3.0, "cpu": 1.0}
    assert list(headline(latest, objectives=["val_loss", "acc", "never"])) == ["val_loss", "acc", "loss"]
    assert headline(latest, objectives=["cpu"]) == {"cpu": 1.0, "loss": 2.0, "val_loss": 3.0, "acc": 0.5}


def test_a_headline_of_an_ended_run_has_the_epoch_s_values_as_keras_s_history() -> None:
    latest = {"loss": 0.9, "running_auc": 0.4, "epoch_loss": 0.5, "epoch_auc": 0.6, "val_loss": 0.7}
    assert headline(latest) == {"loss": 0.9, "val_loss": 0.7, "auc": 0.4}
    assert headline(latest, has_ended=True) == {"loss": 0.5, "val_loss": 0.7, "auc": 0.6}


def test_what_is_not_finite_has_a_word() -> None:
    assert [in_words(value) for value in (math.nan, math.inf, -math.inf)] == ["NaN", "infinite", "-infinite"]


def test_a_figure_of_a_gpu_is_described_by_its_number() -> None:
    assert host_figure("cpu") is HOST_FIGURES["cpu"]
    assert host_figure("gpu12_memory_bytes")[:3] == ("GPU memory", "GPU 12", "bytes")
    assert host_figure("fan3_speed") == HostFigure("fan3_speed", "fan3_speed", "", "")


def test_figures_of_one_plot_have_one_unit() -> None:
    units = {(figure.plot, figure.unit) for figure in HOST_FIGURES.values()}
    assert len(units) == len({figure.plot for figure in HOST_FIGURES.values()})


def test_what_is_sent_to_a_task_is_no_metric_of_the_model() -> None:
    told = {"bytes_per_step_to_worker:1": 4e6, "seconds_per_step_to_worker:1": 0.1, "network_seconds": 0.5}
    assert all(map(is_load, told))
    assert headline({"loss": 1.0, **told}) == {"loss": 1.0}
