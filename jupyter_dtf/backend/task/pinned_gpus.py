"""Restricts TensorFlow to a task's GPUs, and limits the memory that it allocates on them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ...gpu_growth import VARIABLE as _GROWTH
from ...schema.launch import TaskSpec

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_MIB = 1 << 20


def pin(spec: TaskSpec) -> None:
    """Make only the task's GPUs visible to CUDA, unless the program's own environment specifies them.

    Must be called before TensorFlow's runtime starts, because CUDA reads CUDA_VISIBLE_DEVICES only once per process.
    """
    if _VISIBLE not in spec.environment:
        os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # NVML's order
        os.environ[_VISIBLE] = ",".join(spec.visible_gpus)
    if _GROWTH not in spec.environment:
        os.environ.pop(_GROWTH, None)  # inherited from the cluster's creator; ``limit_memory`` decides here


def limit_memory(spec: TaskSpec, note: Callable[[str, str, str], None], config: Any = None) -> None:
    """Configure how TensorFlow (``config``, by default ``tf.config``) allocates GPU memory: on demand, all of it, or up
    to a limit.

    ``note`` is called if TensorFlow does not see all GPUs, because it was built without CUDA or a library is missing,
    and if other processes leave too little memory free.
    """
    if not spec.visible_gpus:
        return
    if config is None:
        import tensorflow as tf

        config = tf.config
    gpus = config.list_physical_devices("GPU")
    if len(gpus) < len(spec.visible_gpus):
        seen = f"It sees {len(gpus)} of this task's {len(spec.visible_gpus)} GPUs ({', '.join(spec.visible_gpus)})"
        note("warning", "TensorFlow does not see all GPUs", seen)
    if spec.gpu_shortage:
        note(
            "warning",
            "Little GPU memory is free",
            f"{spec.gpu_shortage}. Other processes hold the rest: `nvidia-smi` shows which. A notebook that used "
            "TensorFlow before it imported jupyter_dtf holds all GPU memory until its kernel is restarted",
        )
    for gpu in gpus:
        if spec.gpu_memory_bytes:
            cap = config.LogicalDeviceConfiguration(memory_limit=spec.gpu_memory_bytes // _MIB)
            config.set_logical_device_configuration(gpu, [cap])
        else:
            config.experimental.set_memory_growth(gpu, spec.gpu_growth)


def gpu_options(spec: TaskSpec) -> Any:
    """Return the task's memory limits as ``GPUOptions``, because a ``tf.distribute.Server`` ignores ``tf.config``."""
    import tensorflow as tf

    options = tf.compat.v1.GPUOptions(allow_growth=spec.gpu_growth and not spec.gpu_memory_bytes)
    if spec.gpu_memory_bytes:
        for _ in spec.visible_gpus:
            options.experimental.virtual_devices.add(memory_limit_mb=[spec.gpu_memory_bytes // _MIB])
    return options
