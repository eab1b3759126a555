"""Every public name can be the first one that is used in a fresh interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import jupyter_dtf

# One interpreter with the libraries imported, and a fork of it for each name: nothing of this package is loaded there.
PROGRAM = """
import os, sys, traceback
import dask, distributed, keras, tensorflow
assert not [name for name in sys.modules if name.startswith("jupyter_dtf")]
for statement in sys.argv[1:]:
    sys.stdout.flush()
    child = os.fork()
    if not child:
        code = 1
        try:
            exec(statement)
            code = 0
        except BaseException as error:
            print(f"{statement}: {type(error).__name__}: {error}", flush=True)
        os._exit(code)
    os.waitpid(child, 0)
print("done")
"""

OF_HOROVOD = (
    "allreduce",
    "callbacks",
    "elastic",
    "init",
    "keras",
    "load_model",
    "optimizer",
    "tape",
    "DistributedOptimizer",
)


def _statements() -> Iterator[str]:
    for name in jupyter_dtf.__all__:
        yield f"import jupyter_dtf; jupyter_dtf.{name}"
    for name in OF_HOROVOD:
        yield f"import jupyter_dtf.compat.horovod as hvd; hvd.{name}"
        yield f"from jupyter_dtf.compat.horovod import {name}"


def test_each_name_can_be_the_first_that_is_asked_for() -> None:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, *_statements()], stdout=subprocess.PIPE, text=True, env=environment, check=True
    )
    assert found.stdout.splitlines() == ["done"]
