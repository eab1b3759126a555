"""GPU memory growth is enabled in programs that import the package, but not in the Jupyter server."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os, sys
import jupyter_dtf
if "server" in sys.argv:
    from jupyter_dtf.handlers.app import JupyterDTF
    app = JupyterDTF()
    app.settings = {}
    app.initialize_settings()
print(os.environ.get("TF_FORCE_GPU_ALLOW_GROWTH"))
"""


@pytest.mark.parametrize(
    ("given", "where", "expected"),
    [
        (None, "program", "true"),
        ("false", "program", "false"),
        (None, "server", "None"),  # its kernels get it only when they import the package
        ("true", "server", "true"),
    ],
)
def test_memory_grows_where_the_package_is_imported(given: str | None, where: str, expected: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TF_FORCE_GPU_ALLOW_GROWTH"}
    if given is not None:
        environment["TF_FORCE_GPU_ALLOW_GROWTH"] = given
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, where], env=environment, capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == [expected]
