"""Open JupyterLab with the example notebook and the panel at its side: tools/lab.py DIRECTORY [ARGUMENT...].

The arrangement is a JupyterLab workspace kept in DIRECTORY, apart from the person's own workspaces. ARGUMENTs go to
``jupyter lab``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from jupyterlab_server.workspaces_handler import WorkspacesManager

NOTEBOOK = "examples/digits.ipynb"
PANEL = "jupyter-dtf-panel"
WORKSPACE = {
    "metadata": {"id": "dtf"},
    "data": {
        "layout-restorer:data": {
            "main": {
                "dock": {"type": "tab-area", "currentIndex": 0, "widgets": [f"notebook:{NOTEBOOK}"]},
                "current": f"notebook:{NOTEBOOK}",
            },
            "left": {"collapsed": False, "visible": True, "current": PANEL, "widgets": [PANEL]},
            "relativeSizes": [0.26, 0.74, 0],
        },
        f"notebook:{NOTEBOOK}": {"data": {"path": NOTEBOOK, "factory": "Notebook"}},
    },
}


def main(directory: str, arguments: list[str]) -> None:
    """Write the workspace and become ``jupyter lab``."""
    workspaces = Path(directory).absolute()
    workspaces.mkdir(parents=True, exist_ok=True)
    WorkspacesManager(str(workspaces)).save("dtf", json.dumps(WORKSPACE))
    command = [
        *(sys.executable, "-m", "jupyterlab"),
        f"--LabApp.workspaces_dir={workspaces}",
        f"--LabApp.default_url=/lab/workspaces/dtf/tree/{NOTEBOOK}",
        f"--ServerApp.root_dir={Path(__file__).absolute().parent.parent}",
        *(["--allow-root"] if os.geteuid() == 0 else []),
        *arguments,
    ]
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
