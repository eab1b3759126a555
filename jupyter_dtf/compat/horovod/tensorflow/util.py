"""What programs use of ``horovod.tensorflow.util``."""

from __future__ import annotations

import tensorflow as tf

_executing_eagerly = tf.executing_eagerly
