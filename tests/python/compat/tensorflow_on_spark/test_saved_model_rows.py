"""Tests of the predictions of a SavedModel for the rows of a partition, as made on Dask workers."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import tensorflow as tf

from jupyter_dtf.compat.tensorflow_on_spark.saved_model_rows import Asked, predict_part


class Times(tf.Module):
    """A module that multiplies its input by ``factor``."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = tf.Variable(factor)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")])
    def __call__(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": self.factor * x}


def test_another_export_to_the_same_place_is_another_model(tmp_path: Path) -> None:
    asked = Asked(str(tmp_path), None, "serving_default", {"in": "x"}, {"y": "out"}, 2)
    part = pd.DataFrame({"in": [1.0, 2.0, 3.0]})
    for factor in (2.0, 5.0):
        model = Times(factor)
        tf.saved_model.save(model, str(tmp_path), signatures=model.__call__)
        assert predict_part(part, asked)["out"].tolist() == [factor, 2 * factor, 3 * factor]
