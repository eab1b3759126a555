"""Tests of what the extension costs a server that does not use it, how it is found, and its settings."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jupyter_dtf
from jupyter_dtf.handlers.app import JupyterDTF
from jupyter_dtf.handlers.services import Services

LOAD = """
import json, sys
import jupyter_server.serverapp, jupyter_server.extension.application
before = set(sys.modules)
import jupyter_dtf
(point,) = jupyter_dtf._jupyter_server_extension_points()
heavy = {"tensorflow", "keras", "dask", "distributed", "pandas", "numpy", "bokeh", "tsdownsample", "watchfiles"}
print(json.dumps({"heavy": sorted(heavy & (set(sys.modules) - before)), "name": point["app"].name}))
"""


def load() -> dict[str, Any]:
    result = subprocess.run([sys.executable, "-c", LOAD], check=True, capture_output=True, text=True)
    loaded: dict[str, Any] = json.loads(result.stdout)
    return loaded


def test_loading_the_extension_imports_nothing_dear() -> None:
    assert load() == {"heavy": [], "name": "jupyter_dtf"}


def test_loading_into_a_server_imports_nothing_dear(tmp_path: Path) -> None:
    """Loading includes the extension's configuration, settings and handlers."""
    program = """
import sys
from jupyter_server.serverapp import ServerApp
app = ServerApp()
argv = ["--no-browser", "--allow-root", "--port=0", "--ServerApp.jpserver_extensions={'jupyter_dtf': True}"]
app.initialize(argv=argv, new_httpserver=False)
heavy = {"tensorflow", "dask", "distributed", "pandas", "numpy", "tsdownsample", "watchfiles"}
loaded = app.extension_manager.extensions["jupyter_dtf"].enabled
print(loaded, sorted(heavy & set(sys.modules)))
"""
    environment = {**os.environ, "JUPYTER_CONFIG_DIR": str(tmp_path), "JUPYTER_NO_CONFIG": "1"}
    result = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    assert result.stdout.splitlines()[-1] == "True []", result.stderr


def test_the_hooks_name_the_extensions() -> None:
    (point,) = jupyter_dtf._jupyter_server_extension_points()
    assert point == {"module": "jupyter_dtf", "app": JupyterDTF}
    assert jupyter_dtf._jupyter_labextension_paths() == [{"src": "labextension", "dest": "jupyter_dtf"}]


class TestSettings:
    def jp_config(self, config: Any, root: Path) -> Any:
        config.JupyterDTF.data_dir = str(root / "elsewhere")
        config.JupyterDTF.keep_runs = 2
        return config

    def test_runs_beyond_those_kept_are_forgotten_at_start(
        self,
        tmp_path: Path,
        monkeypatch: Any,
        jp_server_config: Any,
        jp_configurable_serverapp: Any,
        jp_asyncio_loop: Any,
    ) -> None:
        from jupyter_dtf.backend.records.store import Store
        from jupyter_dtf.handlers.base import SETTING
        from jupyter_dtf.schema.run import RunState

        from ..backend.records.run_events import run_info
        from .fleet import MemoryFleet

        monkeypatch.setattr("jupyter_dtf.backend.viewer.fleet.Fleet", MemoryFleet)
        store = Store(tmp_path / "elsewhere" / "runs.sqlite")
        for i in range(5):
            store.put_run(run_info(f"r{i}", time.time() + i, state=RunState.FAILED))
        store.close()
        app = jp_configurable_serverapp(config=self.jp_config(jp_server_config, tmp_path))
        assert os.environ["JUPYTER_DTF_DATA_DIR"] == str(tmp_path / "elsewhere")
        services: Services = app.web_app.settings[SETTING]
        hub = jp_asyncio_loop.run_until_complete(services.hub())
        assert [info.id for info in hub.runs()] == ["r4", "r3"]


def test_every_setting_is_documented() -> None:
    text = (Path(__file__).parents[3] / "docs" / "server.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"`c\.JupyterDTF\.(\w+)`", text))
    own = {name for name, trait in JupyterDTF.class_own_traits().items() if trait.metadata.get("config")}
    assert documented == own
    for name in own:
        default = repr(JupyterDTF.class_own_traits()[name].default()).replace("'", '"')
        assert f"| `c.JupyterDTF.{name}` | `{default}` |" in text
