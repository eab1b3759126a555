"""The time from ``cluster.fit`` with 1 GiB of arrays to the end of the first step, compared with ``model.fit``."""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

import jupyter_dtf as dtf

from .submit import first_step
from .table import Row

ROUNDS = 3
FEATURES, EXAMPLES, BATCH = 256, 1 << 20, 4096
MOST_S = 3.0


def measure() -> list[Row]:
    import keras

    class FirstStep(keras.callbacks.Callback):
        at = 0.0

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.at = self.at or time.time()

    x = np.random.default_rng(0).random((EXAMPLES, FEATURES), np.float32)
    y = np.zeros(EXAMPLES, np.int64)
    ours, alone, back = [], [], []
    with dtf.Cluster(jobs={"worker": 2}) as cluster:
        cluster.run(lambda _args, _ctx: None)  # wait until the cluster is up
        for _ in range(ROUNDS):
            model = keras.Sequential([keras.Input((FEATURES,)), keras.layers.Dense(10, activation="softmax")])
            model.compile("sgd", "sparse_categorical_crossentropy")
            begin = time.time()
            run = cluster.fit(model, x, y, batch_size=BATCH, steps_per_epoch=5, wait=False)
            back.append(time.time() - begin)
            run.wait()
            ours.append(first_step(run) - begin)
            first = FirstStep()
            begin = time.time()
            model.fit(x, y, batch_size=BATCH, steps_per_epoch=5, verbose=0, callbacks=[first])
            alone.append(first.at - begin)
    our, other = statistics.median(ours), statistics.median(alone)
    print(f"of which until the data is shared: {statistics.median(back):.2f} s")
    return [
        Row("1 GiB of arrays, call to the end of the first step", f"{our:.2f} s", f"{other:.2f} s", our, "<=", MOST_S)
    ]
