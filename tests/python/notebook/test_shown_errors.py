"""If input is refused in a cell, only the caller's own lines and the error message are shown."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from IPython.core.interactiveshell import InteractiveShell

from jupyter_dtf.errors import InvalidInput


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    made = InteractiveShell.instance()
    yield made
    made.history_manager.end_session()  # type: ignore[union-attr]
    InteractiveShell.clear_instance()


CELL = """from jupyter_dtf.client.fit import prepare

def train():
    return prepare(None, epochs=0)

train()
"""


def test_a_cell_shows_its_own_lines_and_the_sentence(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    result = shell.run_cell(CELL, store_history=True)
    assert isinstance(result.error_in_exec, InvalidInput)
    said = capsys.readouterr().out
    assert said.splitlines() == [
        "Cell In[1], line 6",
        "    train()",
        "Cell In[1], line 4",
        "    return prepare(None, epochs=0)",
        "InvalidInput: `epochs` must be an integer >= 1, got 0",
    ]


def test_without_a_cell_it_is_the_callers_file() -> None:
    from jupyter_dtf.client.fit import prepare

    with pytest.raises(InvalidInput) as refused:
        prepare(None, epochs=0)
    lines = refused.value._render_traceback_()
    assert lines[0].startswith(f"File {__file__}, line ") and lines[0].endswith("prepare(None, epochs=0)")
    assert lines[1:] == ["InvalidInput: `epochs` must be an integer >= 1, got 0"]


@pytest.mark.parametrize(
    ("cell", "lines"),
    [
        ("a b", ["  File In [1], line 1", "    a b", "    ", "SyntaxError: invalid syntax"]),
        ("!ls", ["  File In [1], line 1", "    !ls", "    ", "SyntaxError: invalid syntax", "The tasks run plain"]),
        (
            "%timeit 1",
            ["  File In [1], line 1", "    %timeit 1", "    ", "SyntaxError: ", "The tasks run plain"],
        ),
    ],
)
def test_a_cell_that_is_not_python_is_shown_as_python_shows_it(
    shell: InteractiveShell,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    cell: str,
    lines: list[str],
) -> None:
    from jupyter_dtf.notebook.magics import DtfMagics

    held = SimpleNamespace(wait_ready=lambda: SimpleNamespace(jobs={"worker": 1}))
    monkeypatch.setattr(DtfMagics, "_cluster", lambda self, name: held)
    shell.register_magics(DtfMagics(shell))
    assert shell.run_cell(f"%%dtf run\n{cell}").error_in_exec is not None
    said = capsys.readouterr().out.replace('"', "").splitlines()
    assert [one[: len(line)] for one, line in zip(said, lines, strict=True)] == lines
