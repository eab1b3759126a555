"""The Jupyter server of the browser tests: a fixed token, no news, everything else as people have it."""

from __future__ import annotations

import os
from typing import Any

c: Any = get_config()  # type: ignore[name-defined]  # noqa: F821

c.ServerApp.root_dir = os.environ["DTF_UI_ROOT"]
c.ServerApp.open_browser = False
c.ServerApp.ip = "127.0.0.1"
c.ServerApp.port_retries = 0
c.ServerApp.allow_root = True
c.LabApp.expose_app_in_browser = True  # for commands that are not this extension's own
c.JupyterNotebookApp.expose_app_in_browser = True
c.IdentityProvider.token = "test"
