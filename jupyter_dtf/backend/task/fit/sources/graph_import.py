"""Creates datasets from graphs, in the process that reads the datasets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

# TensorFlow 2.21: no public class creates a dataset from a variant tensor with a given element spec.
from tensorflow.python.data.ops.dataset_ops import _VariantDataset

from .graph_view import GraphView


def dataset_at(view: GraphView, node: Any, spec: Any, feeds: Mapping[str, Any]) -> tf.data.Dataset:
    """Return the dataset that a node computes. ``feeds``: tensors, and variant tensors of datasets, keyed by the names
    of the nodes that they replace.
    """
    part = view.part(node)
    fed = {name: tensor for name, tensor in feeds.items() if name in {n.name for n in part.node}}

    def variant(*tensors: tf.Tensor) -> tf.Tensor:
        inputs = {f"{name}:0": tensor for name, tensor in zip(fed, tensors, strict=True)}
        with tf.device("/device:CPU:0"):  # also for variables, because the functions of datasets run on the CPU
            (output,) = tf.graph_util.import_graph_def(part, inputs, [f"{node.name}:0"], name="")
        return output

    signature = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in fed.values()]
    # On a GPU, the variant would be copied there, and so would the dataset's iterator, which only works on the CPU.
    with tf.device("/device:CPU:0"):
        return _VariantDataset(tf.compat.v1.wrap_function(variant, signature)(*fed.values()), spec)
