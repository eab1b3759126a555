"""Trains on a cluster with a given umask, in a directory whose modules have the names of installed ones.

``python surroundings.py UMASK`` prints its findings as JSON on the last line.
"""

from __future__ import annotations

import importlib
import json
import os
import stat
import sys
import tempfile
from pathlib import Path
from typing import Any

import cloudpickle
import keras
import numpy as np

import jupyter_dtf as dtf

cloudpickle.register_pickle_by_value(sys.modules[__name__])

ROOTS = [
    os.environ["JUPYTER_DTF_DATA_DIR"],
    os.path.join(os.environ["JUPYTER_RUNTIME_DIR"], "jupyter_dtf"),
    os.path.join(tempfile.gettempdir(), f"jupyter_dtf-{os.getuid()}"),
]
OTHERS = "dask-scratch-space"
"""A directory in which Dask writes files with the umask. It is inside a private directory of jupyter_dtf."""


def opened(roots: list[str]) -> list[str]:
    """Return the paths that other users can access, with their modes. Files in private directories are listed too if
    their own modes permit access.
    """
    found = []
    for root in roots:
        for directory, names, files in os.walk(root):
            names[:] = [name for name in names if name != OTHERS]
            for path in (directory, *(os.path.join(directory, name) for name in files)):
                mode = stat.S_IMODE(os.lstat(path).st_mode)
                if mode & 0o077:
                    found.append(f"{mode:o} {path}")
    return found


def program(args: Any, ctx: Any) -> dict[str, Any]:
    beside = importlib.import_module("beside")

    umask = os.umask(0o77)
    os.umask(umask)
    here = opened([*ROOTS, str(ctx.shared_dir.parent)]) if ctx.is_chief else []
    dtf.barrier()  # the program's own files keep the mode of its umask until the run has ended
    (ctx.run_dir / f"from-{ctx.rank}").write_text("by the person's program")
    with open(f"elsewhere-{ctx.rank}", "w") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    return {"umask": umask, "open": here, "beside": beside.VALUE, "path": sys.path, "elsewhere": mode}


def main(umask: int) -> dict[str, Any]:
    os.umask(umask)
    os.environ["PYTHONPATH"] = os.environ.get("PYTHONPATH", "") + os.pathsep  # an empty entry: the working directory
    sys.path.append("")
    with dtf.Cluster(jobs={"worker": 2}) as cluster:
        tasks = cluster.run(program).result()
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
        model.compile("sgd", "mse")
        x, y = np.ones((64, 4), "float32"), np.ones((64, 2), "float32")
        cluster.fit(model, x, y, trace_steps=(1, 2), callbacks=[InRunDir()])
        return {"tasks": tasks, "open": opened(ROOTS)}


class InRunDir(keras.callbacks.Callback):
    """Saves the trained model to the directory with the run's checkpoints, as users do."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        from jupyter_dtf.backend.task.context import current

        if current().is_chief:
            self.model.save(current().checkpoint_dir / f"{epoch}.keras")


if __name__ == "__main__":
    found = main(int(sys.argv[1], 8))
    runs = Path(os.environ["JUPYTER_DTF_DATA_DIR"]) / "runs"
    found["kept"] = sorted(path.name for path in runs.rglob("*"))
    print(json.dumps(found))
