"""A process that predicts for partitions of Dask collections.

Started as ``python -m jupyter_dtf.backend.task.answers.answerer FD THREADS``. FD is a socket to the process that
started it (``backend/host/answerer.py``), on which payloads are exchanged:

* ``("model", digest, packed, keras_config)``: a model to keep. Only the ``KEPT`` most recent models are kept.
* ``("predict", digest, x, batch_size)``: a request for predictions. The reply is ``("outputs", values)`` with the
  model's outputs in a list, ``("unknown",)`` if the process does not have the model, or ``("failed", message)``.

The process exits when the connection is closed, or when it has had no work for a while.
"""

from __future__ import annotations

import os
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ....errors import InvalidInput
from ....schema import payload
from ..fit.models import configure_keras
from ..model import keras_io
from ..model.model_state import give_more, give_own
from .models import Watched

IDLE_S = 60.0
"""The time in seconds without work after which the process exits to free its memory. The next partition starts a new
process.
"""
KEPT = 2
"""The number of models to keep."""


def main(descriptor: int, threads: int) -> None:
    """Serve requests until the other end is closed or no request arrives for ``IDLE_S`` seconds."""
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    for device in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(device, True)  # training may use the GPU as well
    models: dict[str, Any] = {}
    with Connection(descriptor) as line:
        while line.poll(IDLE_S):
            try:
                kind, digest, *more = payload.unpack(bytearray(line.recv_bytes()))
            except EOFError:
                return
            if kind == "model":
                models[digest] = more
                while len(models) > KEPT:
                    del models[next(iter(models))]
                continue
            answer: tuple[Any, ...] = ("unknown",)
            if digest in models:
                try:
                    if isinstance(models[digest], list):
                        models[digest] = _made(*models[digest])
                    answer = "outputs", _answered(models[digest], *more)
                except Exception as error:
                    message = "".join(traceback.format_exception_only(type(error), error)).strip()
                    traceback.print_exc()
                    answer = "failed", message
            line.send_bytes(payload.pack(answer))


def _made(packed: keras_io.PackedModel, keras_config: dict[str, Any]) -> Any:
    configure_keras(keras_config)
    model = keras_io.unpack(packed)
    give_own(model, packed.more)
    keras_io.assign(model.weights, packed.weights, "weights")
    give_more(model, packed.more)
    return model


def _answered(model: Any, x: Any, batch_size: int | None) -> list[Any]:
    watched = Watched(model)
    outputs: list[Any] = keras.tree.flatten(model.predict(x, batch_size=batch_size, verbose=0))
    if watched.changed():
        raise InvalidInput(
            "A model that predicts for the partitions of a Dask collection, which arrive in any order, must not change "
            "its state when it predicts (a stateful layer, random numbers): compute the collection, and predict for "
            "arrays"
        )
    for output in outputs:
        if not isinstance(output, np.ndarray):
            raise InvalidInput(f"Every output of the model must be an array, got {type(output).__name__}")
    return outputs


if __name__ == "__main__":
    os.dup2(2, 1)  # redirect what models print to stderr
    main(int(sys.argv[1]), int(sys.argv[2]))
