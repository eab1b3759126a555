from __future__ import annotations

from typing import Any

import pytest

from jupyter_dtf.notebook.output_blocks import MOST_LINES, Blocks
from jupyter_dtf.schema.events import Logged


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return a list to which the bundles of an output are added as they are displayed."""
    bundles: list[dict[str, Any]] = []

    class Handle:
        def update(self, bundle: dict[str, Any], *, raw: bool) -> None:
            bundles.append(bundle)

    def display(bundle: dict[str, Any], *, raw: bool, display_id: bool) -> Handle:
        bundles.append(bundle)
        return Handle()

    monkeypatch.setattr("IPython.display.display", display)
    return bundles


def logged(task: str, *lines: str, stream: str = "stdout") -> Logged:
    return Logged(time=1.0, task=task, stream=stream, first=0, lines=list(lines))


class TestBlocks:
    def test_each_task_under_its_name_by_rank(self, shown: list[dict[str, Any]]) -> None:
        blocks = Blocks(["worker:0", "worker:1", "ps:0"])
        blocks.show([logged("worker:1", "b")])
        blocks.show([logged("worker:0", "a"), logged("worker:1", "c")])
        assert [bundle["text/plain"] for bundle in shown] == ["worker:1\n  b", "worker:0\n  a\nworker:1\n  b\n  c"]
        assert "ps:0" not in shown[-1]["text/html"]

    def test_what_tasks_print_is_never_markup(self, shown: list[dict[str, Any]]) -> None:
        Blocks(["worker:0"]).show([logged("worker:0", "<script>alert(1)</script>\x1b[31m!", stream="stderr")])
        assert "<script>" not in shown[-1]["text/html"]
        assert "\x1b" not in shown[-1]["text/html"]

    def test_a_progress_bar_is_drawn_over(self, shown: list[dict[str, Any]]) -> None:
        blocks = Blocks(["worker:0"])
        blocks.show([logged("worker:0", "begin", " 10 %\r", " 20 %\r")])
        assert shown[-1]["text/plain"] == "worker:0\n  begin\n   20 %"
        blocks.show([logged("worker:0", "100 %", "end")])
        assert shown[-1]["text/plain"] == "worker:0\n  begin\n  100 %\n  end"

    def test_the_newest_lines_are_kept(self, shown: list[dict[str, Any]]) -> None:
        Blocks(["worker:0"]).show([logged("worker:0", *map(str, range(MOST_LINES + 3)))])
        text = shown[-1]["text/plain"].splitlines()
        assert text[0] == "worker:0 (3 earlier lines left out)"
        assert text[1] == "  3"
