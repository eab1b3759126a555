"""The functions that start a run take its options as arguments, with the defaults that the options have."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import jupyter_dtf as dtf
from jupyter_dtf.schema.run_options import RunOptions

OPTIONS = {field.name: field for field in msgspec.structs.fields(RunOptions)}
NOT_OF_FIT = {"environment", "stop_grace_s"}


@pytest.mark.parametrize(
    ("function", "lacks"),
    [(dtf.Cluster.run, set()), (dtf.Cluster.run_script, set()), (dtf.Cluster.fit, NOT_OF_FIT)],
    ids=["run", "run_script", "fit"],
)
def test_every_option_is_an_argument_with_its_default(function: Callable[..., Any], lacks: set[str]) -> None:
    parameters = inspect.signature(function).parameters
    assert set(OPTIONS) - set(parameters) == lacks
    for name in set(OPTIONS) - lacks:
        assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
        default = parameters[name].default
        assert getattr(RunOptions.among({name: default}), name) == getattr(RunOptions(), name), name
        if isinstance(OPTIONS[name].default, (int, float, str)):
            assert default == OPTIONS[name].default
