"""A task of a real training that is slower than the others is reported once, and once more when it has caught up."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np

import jupyter_dtf as dtf
from jupyter_dtf.backend.machine import paths
from jupyter_dtf.client.session import session
from jupyter_dtf.schema.events import Note

from ..patience import left_s

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def test_a_slow_task_is_named_once_and_when_it_is_as_fast_as_the_others_again(
    no_process_left_by_module: None, tmp_path: Path
) -> None:
    import keras

    class Slow(keras.callbacks.Callback):
        """Delays the last task in every step while a file exists."""

        run_on_all_tasks = True

        def __init__(self, while_there_is: str) -> None:
            super().__init__()
            self.path = while_there_is

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            from jupyter_dtf.backend.task.context import current

            is_slow = current().rank == 2 and Path(self.path).exists()
            time.sleep(0.06 if is_slow else 0.01)

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    x, y = np.ones((48, 4), "float32"), np.ones((48, 1), "float32")
    slow = tmp_path / "slow"
    slow.touch()
    with dtf.Cluster(jobs={"worker": 3}, name="straggles") as cluster:
        run = cluster.fit(
            model,
            x,
            y,
            batch_size=12,
            epochs=100_000,
            callbacks=[Slow(str(slow))],
            checkpoint=False,
            threads_per_task=1,
            wait=False,
        )
        run.wait_for(lambda info: bool(info.slow) or info.state.is_final, left_s())
        (title,) = run.info.slow.values()
        assert list(run.info.slow) == ["worker:2"]
        slow.unlink()
        run.wait_for(lambda info: not info.slow or info.state.is_final, left_s())
        run.stop()
        assert run.wait(left_s()).status == "stopped"
        told = [note for _seq, note in session().hub.events(run.id) if isinstance(note, Note) and note.mark]
    session().close()
    named, over = told
    assert (named.title, named.task, named.level) == (title, "worker:2", "warning")
    assert title.endswith(f" times as long for its part of a step as the others, on host {paths.machine_name()}")
    assert 2.0 <= float(title.split()[2]) <= 8.0
    assert over.title == "worker:2 is as fast as the others again"
