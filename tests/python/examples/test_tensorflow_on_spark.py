"""Tests of TensorFlowOnSpark's Keras and MNIST programs, with scikit-learn's digits, each on a real cluster."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ..script import run

DOCS = Path(__file__).parents[3] / "docs"
PROGRAMS = Path(__file__).parents[3] / "examples" / "tensorflow_on_spark"


def _figure(pattern: str, said: str) -> float:
    match = re.search(pattern, said)
    assert match is not None, said
    return float(match[1])


@pytest.mark.slow
@pytest.mark.extended
def test_all_of_them(tmp_path: Path) -> None:
    """The order matters: the first program makes the data, and the second the model that the last one uses."""
    said = {
        name: run(PROGRAMS / f"mnist_{name}.py", tmp_path).stdout
        for name in ("data_setup", "spark", "tf", "pipeline", "inference")
    }
    assert "1797 digits in 10 parts" in said["data_setup"]
    assert _figure(r"last epoch: ([\d.]+)", said["spark"]) > 0.9
    assert _figure(r"last epoch: ([\d.]+)", said["tf"]) > 0.9
    assert _figure(r"([\d.]+)% of the digits are right", said["pipeline"]) > 90
    assert len(list((tmp_path / "predictions").iterdir())) == 10
    assert _figure(r"2 parts: ([\d.]+)% of 1797", said["inference"]) > 90


@pytest.mark.slow
def test_the_page_on_data(tmp_path: Path) -> None:
    section = (DOCS / "data.md").read_text().partition("## TensorFlowOnSpark's programs")[2]
    match = re.search(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert match is not None
    (tmp_path / "script.py").write_text(match[1])
    assert run(tmp_path / "script.py", tmp_path).stdout == f"{sum(x * x for x in range(1000))}\n"
