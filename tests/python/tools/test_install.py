"""``tools/install.py`` follows pip's configuration, and uses uv if that can be configured in the same way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import install, step


def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> str:
    """Return what ``pip config list`` prints for a configuration file."""
    file = tmp_path / "pip.conf"
    file.write_text(text)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
    return subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def test_pips_own_configuration_is_uvs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in filter(lambda name: name.startswith("PIP_"), list(os.environ)):
        monkeypatch.delenv(name)
    machines_own = install.settings(listed(tmp_path, monkeypatch, ""))
    monkeypatch.setenv("PIP_INDEX_URL", "https://environment.example/simple")
    text = """
[global]
index-url = https://files.example/simple
extra-index-url =
    https://one.example/simple
    https://two.example/simple
trusted-host = files.example
find-links = /wheels /more
cert = /etc/own.pem
timeout = 20
[install]
timeout = 60
[download]
timeout = 1
"""
    told = install.settings(listed(tmp_path, monkeypatch, text))
    made = install.variables({key: value for key, value in told.items() if machines_own.get(key) != value}, {})
    assert made is not None and "UV_SYSTEM_CERTS" not in made
    assert (
        made.items()
        >= {
            "SSL_CERT_FILE": "/etc/own.pem",
            "UV_DEFAULT_INDEX": "https://environment.example/simple",
            "UV_FIND_LINKS": "/wheels,/more",
            "UV_HTTP_TIMEOUT": "60",
            "UV_INDEX": "https://one.example/simple https://two.example/simple",
            "UV_INDEX_STRATEGY": "unsafe-best-match",
            "UV_INSECURE_HOST": "files.example",
        }.items()
    )


def test_what_a_person_has_told_uv_stays() -> None:
    made = install.variables({"index-url": "https://pips.example"}, {"UV_DEFAULT_INDEX": "https://own.example"})
    assert made is not None and made["UV_DEFAULT_INDEX"] == "https://own.example"


class Steps:
    """A substitute for ``step.run``, which records the commands, and according to which uv fails."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []

    def run(self, text: str, command: list[str], **_: object) -> int:
        self.commands.append(command)
        return int(command[0] == "/bin/uv")


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    steps = Steps()
    monkeypatch.setattr(step, "run", steps.run)
    monkeypatch.setattr(install, "find_uv", lambda: "/bin/uv")
    return steps


PIP = [sys.executable, "-m", "pip", "install", "-q", "one"]


@pytest.mark.parametrize("key", ["no-index", "constraint", "only-binary", "some-setting-of-next-year"])
def test_where_uv_cannot_be_told_pip_installs(key: str, steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    assert install.variables({key: "1"}, {}) is None
    monkeypatch.setattr(install, "settings", lambda _: {key: "1"})
    assert install.main("packages", ["one"]) == 0
    assert steps.commands == [PIP]


def test_where_uv_fails_pip_installs(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "settings", lambda _: {})
    assert install.main("packages", ["one"]) == 0
    assert [command[0] for command in steps.commands] == ["/bin/uv", sys.executable]
    assert steps.commands[1] == PIP
