"""An input that is refused in a cell is shown by its sentence and the caller's own line."""

from __future__ import annotations

from collections.abc import Iterator

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
