"""Tests of strategies as settings, which refuse what no strategy could carry out."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.strategy import AllReduce, InGraph, ParameterServer, parse_strategy


@pytest.mark.parametrize(
    ("name", "strategy"), [("allreduce", AllReduce()), ("ps", ParameterServer()), ("mirrored", InGraph())]
)
def test_a_strategy_is_itself_or_its_name(name: str, strategy: Any) -> None:
    assert parse_strategy(name) == strategy
    assert parse_strategy(strategy) is strategy
    assert strategy.name == name
    assert pickle.loads(pickle.dumps(strategy)) == strategy


def test_other_names_are_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidInput, match=r'"mirrored" \(dtf.InGraph\) or dtf.Pipeline\(placement\), got \'replica\''):
        parse_strategy("replica")


@pytest.mark.parametrize("devices", ["GPU:0", ("GPU:0", "GPU:0"), ("",), (0, 1), None])
def test_replicas_stand_on_devices_each_named_once(devices: Any) -> None:
    with pytest.raises(InvalidInput, match="different device strings") as raised:
        InGraph(devices=devices)
    assert raised.value.field == "strategy.devices"
    assert repr(devices) in str(raised.value)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("op", "max", "`op` must be one of average, sum, got 'max'"),
        ("compression", "int8", "`compression` must be one of none, fp16, bf16"),
        ("sparse", "rows", "`sparse` must be one of gather, dense"),
        ("backward_passes_per_step", 1.5, "must be an integer >= 1, got 1.5"),
        ("fusion_bytes", -1, "must be an integer >= 0, got -1"),
        ("clip_norm", 0.0, "None or a number > 0, got 0.0"),
        ("clip_norm", float("nan"), "None or a number > 0, got nan"),
    ],
)
def test_fields_of_all_reduce_that_mean_nothing_are_refused(field: str, value: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as raised:
        AllReduce(**{field: value})
    assert raised.value.field == f"strategy.{field}"
