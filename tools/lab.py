"""Open JupyterLab with the example notebook and the panel next to it: tools/lab.py DIRECTORY [ARGUMENT...].

The layout is a JupyterLab workspace in DIRECTORY, separate from the user's own workspaces. The notebook is a copy that
is made once, so that JupyterLab does not change the file in the repository. ARGUMENTs are passed to ``jupyter lab``.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

from jupyterlab_server.workspaces_handler import WorkspacesManager

from jupyter_dtf.backend.machine import children

ROOT = Path(__file__).absolute().parent.parent
EXAMPLE = "examples/digits.ipynb"
NOTEBOOK = "artifacts/lab/digits.ipynb"
"""The path of the copy, relative to the directory that JupyterLab shows. Git ignores it."""
PANEL = "jupyter-dtf-panel"
WORKSPACE = "dtf"


def save_workspace(directory: str, notebook: str) -> str:
    """Write a workspace that shows ``notebook`` and the panel to ``directory``. Return the workspace's URL.

    ``notebook`` is a path relative to the server's root directory.
    """
    layout = {
        "main": {
            "dock": {"type": "tab-area", "currentIndex": 0, "widgets": [f"notebook:{notebook}"]},
            "current": f"notebook:{notebook}",
        },
        "left": {"collapsed": False, "visible": True, "current": PANEL, "widgets": [PANEL]},
        "relativeSizes": [0.26, 0.74, 0],
    }
    data = {
        "layout-restorer:data": layout,
        f"notebook:{notebook}": {"data": {"path": notebook, "factory": "Notebook"}},
    }
    Path(directory).mkdir(parents=True, exist_ok=True)
    WorkspacesManager(directory).save(WORKSPACE, json.dumps({"metadata": {"id": WORKSPACE}, "data": data}))
    return f"/lab/workspaces/{WORKSPACE}/tree/{notebook}"


def main(directory: str, arguments: list[str]) -> None:
    """Write the workspace, and replace this process with ``jupyter lab``."""
    workspaces = str(Path(directory).absolute())
    url = save_workspace(workspaces, NOTEBOOK)
    copy = ROOT / NOTEBOOK
    if not copy.exists():
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / EXAMPLE, copy)
    print("Starting JupyterLab; press Ctrl-C twice to stop it", flush=True)
    command = [
        *children.command("jupyterlab"),
        f"--LabApp.workspaces_dir={workspaces}",
        f"--LabApp.default_url={url}",
        f"--ServerApp.root_dir={ROOT}",
        "--log-level=WARN",
        "--LabApp.log_level=WARN",
        *(["--allow-root"] if os.geteuid() == 0 else []),
        *arguments,
    ]
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
