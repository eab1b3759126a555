"""TensorFlowOnSpark's ``compat``: functions for programs that run with several versions of TensorFlow."""

from __future__ import annotations

from typing import Any


def export_saved_model(model: Any, export_dir: str, is_chief: bool = False) -> None:
    """Write a Keras model as a SavedModel on the chief. Other nodes do nothing."""
    if is_chief:
        model.export(export_dir)


def disable_auto_shard(options: Any) -> None:
    """Set ``tf.data.Options`` so that every node reads its entire dataset, because it has only the node's data."""
    import tensorflow as tf

    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF


def is_gpu_available() -> bool:
    """Return whether this node has a GPU."""
    import tensorflow as tf

    return bool(tf.config.list_physical_devices("GPU"))
