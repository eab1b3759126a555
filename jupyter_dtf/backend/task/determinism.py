"""Determines whether deterministic operations are enabled (``tf.config.experimental.enable_op_determinism()``)."""

from __future__ import annotations

import sys


def is_enabled() -> bool:
    """Return whether operations must be deterministic in this process; False if TensorFlow has not been imported."""
    if "tensorflow" not in sys.modules:
        return False
    # TensorFlow 2.21: a public function enables determinism, but none returns whether it is enabled.
    from tensorflow.python.framework.config import is_op_determinism_enabled

    return bool(is_op_determinism_enabled())
