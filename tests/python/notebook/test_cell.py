from __future__ import annotations

import threading
import traceback
from types import SimpleNamespace
from typing import Any

import cloudpickle
import pytest

from jupyter_dtf.notebook import cell as cells
from jupyter_dtf.notebook.cell import Cell, NotPicklable

CTX = SimpleNamespace(task="worker:1", rank=1, size=2)


def run(source: str, **namespace: Any) -> Any:
    """Run a cell as a task does, after it has been pickled and unpickled."""
    prepared = cells.prepare(source, namespace, "In [7]")
    return cells.run(cloudpickle.loads(cloudpickle.dumps(prepared)), CTX)


class TestWhatTravels:
    def test_names_that_the_cell_uses_and_no_others(self) -> None:
        namespace = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "In": [], "print": print}
        source = "x = a + 1\ndef f():\n    return b\n[c for c in range(3)]\nobject.d\ne = 6\nIn"
        assert set(cells.prepare(source, namespace).names) == {"a", "b", "c"}

    def test_a_name_that_is_changed_in_place(self) -> None:
        assert run("count += 1\ncount", count=2) == 3

    def test_what_cannot_be_sent_is_left_behind_with_the_reason(self) -> None:
        prepared = cells.prepare("lock, 1", {"lock": threading.Lock()})
        assert prepared.names == {}
        assert "lock" in prepared.left_behind["lock"]

    def test_what_cannot_be_sent_holds_nothing_else_up(self) -> None:
        assert run("if False:\n    lock\nfine", lock=threading.Lock(), fine=3) == 3

    def test_shared_objects_stay_shared(self) -> None:
        first: list[int] = []
        assert run("first.append(1)\nsecond['list']", first=first, second={"list": first}) == [1]


class TestRun:
    def test_value_of_the_last_expression(self) -> None:
        assert run("x = 20\nx + k", k=3) == 23

    @pytest.mark.parametrize("source", ["", "x = 1", "for i in range(3):\n    i", "# nothing"])
    def test_no_last_expression(self, source: str) -> None:
        assert run(source) is None

    def test_ctx(self) -> None:
        assert run("ctx.rank, ctx.size") == (1, 2)

    def test_functions_see_the_cells_names(self) -> None:
        assert run("k = 3\ndef f():\n    return k\nf()") == 3

    def test_other_tasks_do_nothing(self) -> None:
        assert cells.run(cells.prepare("1 / 0", {}, tasks=["worker:0"]), CTX) is None
        with pytest.raises(ZeroDivisionError):
            cells.run(cells.prepare("1 / 0", {}, tasks=["worker:1"]), CTX)

    def test_a_value_that_cannot_come_back_shows_what_it_showed(self) -> None:
        value = run("import threading\nthreading.Lock()")
        assert isinstance(value, NotPicklable)
        assert "lock" in repr(value)
        assert repr(cloudpickle.loads(cloudpickle.dumps(value))) == repr(value)


class TestErrors:
    def test_traceback_has_the_cells_name_and_lines(self) -> None:
        with pytest.raises(ZeroDivisionError) as raised:
            run("x = 1\n\ny = x / 0")
        text = "".join(traceback.format_exception(raised.value))
        assert 'File "In [7]", line 3, in <module>' in text
        assert "y = x / 0" in text

    def test_a_name_that_could_not_be_sent(self) -> None:
        with pytest.raises(
            NameError, match=r"'lock' is defined in the notebook but cannot be sent to a task \(TypeError"
        ):
            run("lock.acquire()", lock=threading.Lock())

    def test_a_name_that_there_is_not(self) -> None:
        with pytest.raises(NameError, match="^name 'nothing' is not defined$"):
            run("nothing")

    def test_a_cell_that_is_not_python(self) -> None:
        with pytest.raises(SyntaxError):
            cells.prepare("a b", {})


def test_cells_cross_the_wire_by_pickle_alone() -> None:
    prepared = cells.prepare("k", {"k": 1}, "In [1]", ["worker:0"])
    assert cloudpickle.loads(cloudpickle.dumps(prepared)) == Cell(
        source="k", filename="In [1]", names={"k": 1}, left_behind={}, tasks=["worker:0"]
    )
