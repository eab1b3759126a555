"""``dtf.Context`` describes what a task's context really offers."""

from __future__ import annotations

import inspect
import re

import pytest

import jupyter_dtf as dtf
from jupyter_dtf.backend.task.context import Context

MEMBERS = [name for name in vars(dtf.Context) if not name.startswith("_")]


def _is_one(ctx: Context) -> dtf.Context:
    """Let mypy check that ``Context`` implements ``dtf.Context``."""
    return ctx


def test_it_is_public() -> None:
    assert "Context" in dtf.__all__
    assert {"job_name", "rank", "size", "report", "should_stop", "checkpoint_dir", "feed", "restore"} <= set(MEMBERS)
    reports = {name for name in vars(Context) if re.fullmatch(r"report(_\w+)?", name)}
    assert reports <= set(MEMBERS)


@pytest.mark.parametrize("name", MEMBERS)
def test_a_task_has_each_member_as_described(name: str) -> None:
    described, real = inspect.getattr_static(dtf.Context, name), inspect.getattr_static(Context, name)
    assert inspect.getdoc(described)
    assert type(described) is type(real)
    if inspect.isfunction(described):
        parameters = [(each.name, each.kind, each.default) for each in inspect.signature(described).parameters.values()]
        real_ones = [(each.name, each.kind, each.default) for each in inspect.signature(real).parameters.values()]
        assert parameters == real_ones
