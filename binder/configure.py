"""Let JupyterLab open the example with the panel at its side, whatever starts it: python -m binder.configure."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tools.lab import EXAMPLE, save_workspace

PREFIX = Path(sys.prefix)
APPLICATIONS = {"lab": "LabApp", "notebook": "JupyterNotebookApp", "server": "ServerApp"}


def main() -> None:
    """Write a workspace, and a file of settings for each application, where Jupyter in this environment looks."""
    workspaces = PREFIX / "share/jupyter_dtf/workspaces"
    url = save_workspace(str(workspaces), EXAMPLE)
    (PREFIX / "etc/jupyter").mkdir(parents=True, exist_ok=True)
    for name, application in APPLICATIONS.items():
        settings = {application: {"default_url": url}}
        settings.setdefault("LabApp", {})["workspaces_dir"] = str(workspaces)
        (PREFIX / f"etc/jupyter/jupyter_{name}_config.json").write_text(json.dumps(settings, indent=2) + "\n")


if __name__ == "__main__":
    main()
