"""Tests of the barrier for profiling: no task passes it before all have arrived, however soon a task returns."""

from __future__ import annotations

from contextlib import closing

from ..gang import FakeContext, run_gang


def meeting(ctx: FakeContext) -> int:
    from jupyter_dtf.backend.task.profile.together import Together

    with closing(Together(ctx)) as together:
        for number in range(100):
            aside = ctx.shared_dir / f".{ctx.rank}"
            aside.write_text(str(number))
            aside.replace(ctx.shared_dir / f"came {ctx.rank}")
            together.meet()
            came = [int((ctx.shared_dir / f"came {rank}").read_text()) for rank in range(ctx.size)]
            assert min(came) >= number, f"{came} at meeting {number}"
    return number


def test_all_have_come_when_one_goes_on() -> None:
    assert run_gang(3, meeting) == [99, 99, 99]
