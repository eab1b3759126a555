"""Makes TensorFlow allocate GPU memory only as needed in a program that uses this package, to leave memory for tasks.

Otherwise, TensorFlow allocates all memory of all GPUs as soon as a notebook creates its first variable, and tasks of a
cluster on the same machine, which start later, get none (observed with TensorFlow 2.21 on an H200). The memory of a
task is determined by the cluster (``backend/task/pinned_gpus.py``).
"""

from __future__ import annotations

import os

VARIABLE = "TF_FORCE_GPU_ALLOW_GROWTH"
"""The environment variable that TensorFlow reads when it first uses a GPU. It takes precedence over ``tf.config``."""

_set_here = False


def let_grow() -> None:
    """Make TensorFlow allocate GPU memory as needed in this process, unless the user has set the variable."""
    global _set_here
    if VARIABLE not in os.environ:
        os.environ[VARIABLE] = "true"
        _set_here = True


def undo() -> None:
    """Undo ``let_grow``, in a process that starts processes that are unrelated to this package."""
    global _set_here
    if _set_here:
        os.environ.pop(VARIABLE, None)
        _set_here = False
