"""Tests of the examples for other machines, with simulated machines and job queues."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .. import patience, slurm
from ..machines import net
from ..script import run

EXAMPLES = Path(__file__).parents[3] / "examples"


def read(text: str) -> float:
    """Return the percentage of digits that were classified correctly."""
    (found,) = re.findall(r"not seen: ([\d.]+)% right", text)
    return float(found)


@pytest.mark.slow
@pytest.mark.extended
def test_ssh(tmp_path: Path) -> None:
    with net(tmp_path, ["ada", "bert"]) as there:
        keys = ["--key-file", str(there.key), "--known-hosts", str(there.known_hosts)]
        hosts = [machine.entry for machine in there.machines]
        text = run(EXAMPLES / "ssh.py", tmp_path, [*keys, *hosts]).stdout
        assert sorted(re.findall(r"^worker:\d ran on (\S+)$", text, re.MULTILINE)) == sorted(
            machine.address for machine in there.machines
        )
        assert read(text) > 80


@pytest.mark.slow
@pytest.mark.extended
def test_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in slurm.install(tmp_path).items():
        monkeypatch.setenv(name, value)
    queue = tmp_path / "queue"
    text = run(EXAMPLES / "slurm.py", tmp_path, ["--queue", "short", "--memory", "1", "--interface", "lo"]).stdout
    assert sorted(re.findall(r"^worker:\d ran in the job slurm-(\d)$", text, re.MULTILINE)) == ["0", "1"]
    assert read(text) > 80
    assert "#SBATCH -p short" in (queue / "1.sh").read_text()
    patience.until(lambda: not slurm.running(queue), lambda: f"the end of the jobs {slurm.running(queue)}")
