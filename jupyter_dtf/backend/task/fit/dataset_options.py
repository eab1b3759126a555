"""Contains the options of this package's own ``tf.data`` pipelines."""

from __future__ import annotations

import tensorflow as tf


def unchanged_options() -> tf.data.Options:
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False  # they cost more than they save
    options.autotune.enabled = False
    options.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.IGNORE
    return options
