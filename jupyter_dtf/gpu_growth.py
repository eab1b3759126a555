"""Has TensorFlow take GPU memory as it needs it in a program that uses this package, so that tasks find some left.

Otherwise TensorFlow takes all memory of all GPUs as soon as a notebook makes its first variable, and the tasks of a
cluster on the same machine, which come later, get none (seen with TensorFlow 2.21 on an H200). How much a task takes is
the cluster's decision (``backend/task/pinned_gpus.py``).
"""

from __future__ import annotations

import os

VARIABLE = "TF_FORCE_GPU_ALLOW_GROWTH"
"""Read by TensorFlow when it first uses a GPU. It takes precedence over ``tf.config``."""

_set_here = False


def let_grow() -> None:
    """Have TensorFlow take memory as needed in this process, unless the user has decided otherwise."""
    global _set_here
    if VARIABLE not in os.environ:
        os.environ[VARIABLE] = "true"
        _set_here = True


def undo() -> None:
    """Undo ``let_grow``: this process runs others that have nothing to do with this package."""
    global _set_here
    if _set_here:
        os.environ.pop(VARIABLE, None)
        _set_here = False
