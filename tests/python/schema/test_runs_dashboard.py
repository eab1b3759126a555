from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from jupyter_dtf.schema.runs_dashboard import DashboardPlot, RunsDashboard

DOCS = Path(__file__).parents[3] / "docs"


def test_the_file_in_the_documentation_is_one() -> None:
    page = (DOCS / "notebook.md").read_text()
    texts = [text for text in re.findall(r"```json\n(.*?)```", page, re.DOTALL) if '"plots"' in text]
    assert len(texts) == 1
    found = msgspec.json.decode(texts[0], type=RunsDashboard)
    assert found.plots[0] == DashboardPlot(metric="loss", smoothing=0.6, log=True)
    assert [run.name for run in found.runs] == ["digits"]


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="colour"):
        msgspec.json.decode('{"plots": [{"metric": "loss", "colour": 1}]}', type=RunsDashboard)
