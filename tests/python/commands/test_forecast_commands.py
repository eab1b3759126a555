"""Tests of ``jupyter dtf predict`` and ``plan``."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_dtf import cli
from jupyter_dtf.schema.base import decode_json
from jupyter_dtf.schema.design import Design
from jupyter_dtf.schema.forecast import Forecast

FULL = str(Path(__file__).parents[2] / "designs" / "full.dtf")


def test_a_table_and_what_it_takes_for_granted(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["predict", FULL, "--tasks", "1,2,64", "--device", "A100", "--precision", "tf32"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Forecast for digits: all-reduce, hierarchical ring, 10 Gbit/s Ethernet (TCP)"
    assert [line.split()[0] for line in lines[1:5]] == ["tasks", "1", "2", "64"]
    assert any(line.startswith("Compute times come from the figures of NVIDIA A100") for line in lines)


def test_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--strategy", "ps", "--sync", "--servers", "2", "--backup-workers", "1", "--tasks", "4", "--json"]
    assert cli.main(["predict", FULL, *arguments]) == 0
    found = decode_json(capsys.readouterr().out, Forecast)
    assert (found.settings.servers, found.settings.backup_workers, found.points[0].dropped) == (2, 1, 0.25)


def test_a_plan_writes_its_design(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "large.dtf"
    target = ["--examples-per-second", "1e5", "--network", "100gbit", "--strategy", "allreduce"]
    assert cli.main(["plan", FULL, *target, "-o", str(path)]) == 0
    assert capsys.readouterr().out.startswith("100k examples a second: all-reduce, ")
    assert Design.open(path).cluster.jobs
    assert cli.main(["plan", FULL, "--examples-per-second", "1e17"]) == 1
    assert "No tested option reaches" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["predict", FULL, "--device", "B9"], "`device` must be one of K80, "),
        (["predict", FULL, "--tasks", "one"], "--tasks must be integers as in 1,2,4, got 'one'"),
        (["plan", FULL], "Exactly one of `examples_per_second`, `hours` and `device_hours` must be"),
    ],
)
def test_a_wrong_command_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == 2
    assert message in capsys.readouterr().err
