"""Strategies are inert, and refuse what no strategy could carry out."""

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
    with pytest.raises(InvalidInput, match=r'"mirrored" \(dtf.InGraph\). Received: \'tower\''):
        parse_strategy("tower")


@pytest.mark.parametrize("devices", ["GPU:0", ("GPU:0", "GPU:0"), ("",), (0, 1), None])
def test_towers_stand_on_devices_each_named_once(devices: Any) -> None:
    with pytest.raises(InvalidInput, match="each once") as raised:
        InGraph(devices=devices)
    assert raised.value.field == "strategy.devices"
    assert repr(devices) in str(raised.value)
