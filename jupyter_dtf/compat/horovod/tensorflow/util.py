"""The names in ``horovod.tensorflow.util`` that programs use."""

from __future__ import annotations

import tensorflow as tf

_executing_eagerly = tf.executing_eagerly
