"""A collective that waits says once for whom."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from jupyter_dtf.errors import InvalidInput

from ..gang import FakeContext, run_gang

pytestmark = pytest.mark.timeout(120)


def appeared(path: Path) -> bool:
    """Whether there is such a file within a minute."""
    end = time.monotonic() + 60
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.01)
    return path.exists()


@pytest.mark.parametrize("machines", ["aaa", "abb"])
def test_who_is_missing_is_named_once_for_each_stall(machines: str) -> None:
    def program(ctx: FakeContext) -> list[tuple[str, str, str]]:
        import tensorflow as tf

        from jupyter_dtf.backend.task.collectives import make_reducer

        os.environ["DTF_STALL_SECONDS"] = "0.4"
        ctx.machines = list(machines)
        noted = iter(["noted-0", "noted-1"])
        keep = ctx.note

        def note(level: str, title: str, text: str = "") -> None:
            keep(level, title, text)
            (ctx.run_dir / next(noted)).touch()

        ctx.note = note  # type: ignore[method-assign]
        reducer = make_reducer("auto", ctx)
        traced = tf.function(lambda t: reducer.sum_tensor(t, "a"), autograph=False)
        for stall in range(2):
            traced(tf.ones(2))
            if ctx.rank == 2:
                assert appeared(ctx.run_dir / f"noted-{stall}")
            assert traced(tf.ones(2)).numpy().tolist() == [3.0, 3.0]
        reducer.close()
        return ctx.notes

    first, *others = run_gang(3, program)
    what = " (a of float32 [2])" if machines == "aaa" else ""
    assert first == [("warning", "A collective waits", f"worker:2 has not come after 0.4 s{what}")] * 2
    assert others == [[], []]


def test_the_time_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    from jupyter_dtf.backend.task.collectives.stall import stall_seconds

    assert stall_seconds() == 60
    for value in ("soon", "0", "-1", "nan"):
        monkeypatch.setenv("DTF_STALL_SECONDS", value)
        with pytest.raises(InvalidInput, match=f"a number above 0. Received: '{value}'"):
            stall_seconds()
