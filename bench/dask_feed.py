"""Compares training from a Dask array with native ``tf.data``, and training with and without a slow partition.

The data are digits, as images of 28x28.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

import jupyter_dtf as dtf

from .table import Row

ROUNDS, EPOCHS, BATCH, PARTITIONS = 3, 4, 64, 9
COMPUTE_S, TIMES_AS_SLOW = 0.2, 10


def digits() -> tuple[Any, Any]:
    """Return handwritten digits, repeated twenty times, as images of 28x28, and their labels."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    images = np.kron(x.reshape(-1, 8, 8) / 16, np.ones((1, 4, 4)))[:, 2:30, 2:30, None].astype("float32")
    return np.tile(images, (20, 1, 1, 1)), np.tile(y, 20)


def network() -> Any:
    import keras

    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(8, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile("sgd", "sparse_categorical_crossentropy")
    return model


def slowly(block: Any, seconds: Any, block_id: Any = None) -> Any:
    """Return the block after sleeping for the number of seconds given for its partition."""
    time.sleep(seconds[block_id[0]])
    return block


def measure() -> list[Row]:
    import dask.array as da
    import keras

    class Epochs(keras.callbacks.Callback):
        def __init__(self) -> None:
            super().__init__()
            self.ends: list[float] = []

        def on_train_begin(self, logs: Any = None) -> None:
            self.ends.append(time.time())

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.ends.append(time.time())

    x, y = digits()
    rows = -(-len(x) // PARTITIONS)

    def native(ctx: dtf.Context) -> Any:
        import tensorflow as tf

        of_task = slice(ctx.rank * len(x) // ctx.size, (ctx.rank + 1) * len(x) // ctx.size)
        dataset = tf.data.Dataset.from_tensor_slices((x[of_task], y[of_task])).shuffle(10_000)
        return dataset.batch(BATCH // ctx.size).prefetch(2)

    with dtf.Cluster(jobs={"worker": 2}) as cluster:
        cluster.run(lambda _args, _ctx: None)  # wait until the cluster is up
        labels = da.from_array(y, chunks=rows)

        def rate(first: int, *data: Any, **options: Any) -> float:
            """Return the examples per second after the first ``first`` epochs."""
            epochs = Epochs()
            model = network()
            cluster.fit(model, *data, epochs=EPOCHS, callbacks=[epochs], checkpoint=False, **options)
            return len(x) * (EPOCHS - first) / (epochs.ends[-1] - epochs.ends[first])

        array = da.from_array(x, chunks=(rows, -1, -1, -1))
        fed: list[float] = []
        natively: list[float] = []
        even: list[float] = []
        uneven: list[float] = []
        for _ in range(ROUNDS):
            fed.append(rate(1, array, labels, batch_size=BATCH))
            natively.append(rate(1, native))
            for rates, slow in ((even, 1), (uneven, TIMES_AS_SLOW)):
                seconds = [COMPUTE_S * (slow if number == PARTITIONS // 2 else 1) for number in range(PARTITIONS)]
                computed = array.map_blocks(slowly, seconds=seconds, dtype="float32")
                rates.append(rate(0, computed, labels, batch_size=BATCH, shuffle=False))
    ours, other, steady, held_up = (statistics.median(each) for each in (fed, natively, even, uneven))
    return [
        Row(
            "digits of 28x28 from a Dask array, against native tf.data",
            f"{ours:.0f}/s",
            f"{other:.0f}/s",
            ours / other,
            ">=",
            0.9,
        ),
        Row(
            f"one of {PARTITIONS} partitions {TIMES_AS_SLOW} times as slow, against none",
            f"{held_up:.0f}/s",
            f"{steady:.0f}/s",
            held_up / steady,
            ">=",
            0.85,
        ),
    ]
