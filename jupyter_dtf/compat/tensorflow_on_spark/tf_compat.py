"""TensorFlowOnSpark's ``compat``: what programs call so that they run with several versions of TensorFlow."""

from __future__ import annotations

from typing import Any


def export_saved_model(model: Any, export_dir: str, is_chief: bool = False) -> None:
    """Have the chief write a Keras model as a SavedModel. The other nodes do nothing."""
    if is_chief:
        model.export(export_dir)


def disable_auto_shard(options: Any) -> None:
    """In ``tf.data.Options``: every node reads all of its dataset, which is its own already."""
    import tensorflow as tf

    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF


def is_gpu_available() -> bool:
    """Whether this node has a GPU."""
    import tensorflow as tf

    return bool(tf.config.list_physical_devices("GPU"))
