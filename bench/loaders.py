"""Training with a loader, compared with plain Keras, and the memory of training with an array on disk. Two tasks."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import cloudpickle
import keras
import numpy as np
import psutil

import jupyter_dtf as dtf

from .table import Row

cloudpickle.register_pickle_by_value(sys.modules[__name__])

BATCHES, GETITEM_S, EPOCHS = 100, 0.02, 3
EXAMPLES, FEATURES = 1 << 20, 1024


class Slow(keras.utils.PyDataset):
    """A loader with batches that take 20 ms each."""

    def __len__(self) -> int:
        return BATCHES

    def __getitem__(self, number: int) -> Any:
        time.sleep(GETITEM_S)
        draw = np.random.default_rng(number)
        return draw.random((32, 64), np.float32), draw.integers(0, 10, 32)


class Epochs(keras.callbacks.Callback):
    """Records when each epoch ended."""

    def __init__(self) -> None:
        super().__init__()
        self.at: list[float] = []

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.at.append(time.time())

    @property
    def seconds(self) -> float:
        """The mean duration of an epoch in seconds, without the first epoch."""
        return (self.at[-1] - self.at[0]) / (len(self.at) - 1)


def model(features: int) -> Any:
    made = keras.Sequential([keras.Input((features,)), keras.layers.Dense(10, activation="softmax")])
    made.compile("sgd", "sparse_categorical_crossentropy")
    return made


class Resident(keras.callbacks.Callback):
    """Writes a file for each task: the maximum number of bytes by which its memory grew after the first step."""

    run_on_all_tasks = True

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.directory = directory
        self.first = self.most = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        now = psutil.Process().memory_info().rss
        self.first = self.first or now
        self.most = max(self.most, now - self.first)

    def on_train_end(self, logs: Any = None) -> None:
        (self.directory / f"{os.getpid()}.bytes").write_text(str(self.most))


def measure() -> list[Row]:
    ours, alone = Epochs(), Epochs()
    with dtf.Cluster(jobs={"worker": 2}) as cluster:
        cluster.fit(model(64), Slow(), epochs=EPOCHS, callbacks=[ours], verbose=0, checkpoint=False)
        model(64).fit(Slow(), epochs=EPOCHS, callbacks=[alone], verbose=0)
        most, map_bytes = _mapped(cluster)
    speed = alone.seconds / ours.seconds
    return [
        Row(
            "an epoch of a PyDataset with 20 ms per batch, two tasks",
            f"{ours.seconds:.2f} s",
            f"{alone.seconds:.2f} s",
            speed,
            ">=",
            1.9,
        ),
        Row(
            f"memory map of {map_bytes >> 30} GiB, resident memory of the client or a task, MB",
            f"{most / 1e6:.0f} MB",
            "",
            most / 1e6,
            "<=",
            300,
        ),
    ]


def _mapped(cluster: dtf.Cluster) -> tuple[int, int]:
    """Return the memory that training on a sparse file takes, the maximum over the client and the tasks, and the file's
    size. Both are in bytes.
    """
    with tempfile.TemporaryDirectory() as directory:
        x = np.memmap(Path(directory) / "x.raw", np.float32, "w+", shape=(EXAMPLES, FEATURES))
        y = np.zeros(EXAMPLES, np.int32)
        before = psutil.Process().memory_info().rss
        cluster.fit(
            model(FEATURES), x, y, batch_size=4096, verbose=0, checkpoint=False, callbacks=[Resident(Path(directory))]
        )
        client = psutil.Process().memory_info().rss - before
        tasks = [int(path.read_text()) for path in Path(directory).glob("*.bytes")]
        assert len(tasks) == 2, tasks
        print(f"growth of the client: {client / 1e6:.0f} MB, of the tasks: {[round(task / 1e6) for task in tasks]} MB")
        return max(client, *tasks), x.nbytes
