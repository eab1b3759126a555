"""Tests of what gangs guarantee to the tests that use them."""

from __future__ import annotations

from functools import partial

import pytest

from .gang import PRELOADED, FakeContext, run_gang


def test_a_task_finds_imported_what_programs_use() -> None:
    """A name that no longer exists would silently make every task import the remaining modules itself."""

    def program(ctx: FakeContext) -> list[str]:
        import sys

        return [name for name in PRELOADED if name not in sys.modules]

    assert run_gang(1, program) == [[]]


def test_one_task_is_the_client_of_all() -> None:
    def program(ctx: FakeContext) -> list[bytes]:
        return [ctx.by_one_client(partial(bytes, [number, ctx.rank])) for number in range(3)]

    assert run_gang(3, program) == [[bytes([number, 0]) for number in range(3)]] * 3


def test_what_the_client_raises_reaches_every_task() -> None:
    def program(ctx: FakeContext) -> str:
        def fail() -> bytes:
            raise ValueError(f"no luck on {ctx.rank}")

        with pytest.raises(ValueError, match="no luck on 0") as raised:
            ctx.by_one_client(fail)
        return str(raised.value)

    assert run_gang(2, program) == ["no luck on 0"] * 2


def test_a_client_that_has_gone_keeps_nobody_waiting() -> None:
    def program(ctx: FakeContext) -> str:
        import os

        if ctx.rank == 0:
            os._exit(1)
        with pytest.raises(RuntimeError, match="worker:0, which plays the client, has gone"):
            ctx.by_one_client(bytes)
        return "told"

    assert run_gang(3, program, may_die=True) == [None, "told", "told"]
