"""The time to load the server extension when a Jupyter server starts, compared with JupyterLab's own extension."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys

from .table import Row

ROUNDS = 5

PROGRAM = """
import json, sys, time
from jupyter_server.serverapp import ServerApp
app = ServerApp.instance(open_browser=False, reraise_server_extension_failures=True, log_level="ERROR")
app.initialize(argv=[], find_extensions=False, new_httpserver=False)
def load(name):
    begun = time.perf_counter()
    assert app.extension_manager.add_extension(name, enabled=True)
    app.extension_manager.link_extension(name)
    app.extension_manager.load_extension(name)
    return time.perf_counter() - begun
print(json.dumps([load("jupyterlab"), load("jupyter_dtf")]))
"""


def measure() -> list[Row]:
    found = []
    for _ in range(ROUNDS):
        output = subprocess.run([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, check=True).stdout
        found.append(json.loads(output.splitlines()[-1]))
    lab, ours = (statistics.median(each) * 1000 for each in zip(*found, strict=True))
    return [
        Row("loading the server extension", f"{ours:.0f} ms", f"{lab:.0f} ms (JupyterLab's)", ours / lab, "<=", 0.5)
    ]
