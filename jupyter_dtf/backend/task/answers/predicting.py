"""One task's part of a ``predict`` call."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ....errors import InvalidInput
from ....schema.sizes import bytes_
from ..collectives import make_reducer
from ..collectives.primitive import Reducer
from .batches import TaskBatches, batches_of
from .job import AnswerJob, Part
from .models import Watched, answering_model
from .pace import Pace

CALL_S = 0.1
"""The approximate duration, in seconds, of a call that predicts for many batches. Between calls, progress is reported
and requests to stop are handled.
"""
MOST_BYTES = 3 << 30
"""The maximum size of a task's result in bytes. The result is sent as one message, which must be smaller than 4 GiB."""


def answer(job: AnswerJob, ctx: Any) -> Part:
    """Return this task's predictions. Raises InvalidInput, and whatever user code raises."""
    reducer = make_reducer("auto", ctx)
    failed = True
    try:
        part = _answered(job, ctx, reducer)
        failed = False
        return part
    finally:
        reducer.close(failed)


def _answered(job: AnswerJob, ctx: Any, reducer: Reducer) -> Part:
    batches = batches_of(job, ctx, reducer.rank, reducer.size)
    model = answering_model(job, batches.dataset.element_spec, reducer)
    watched = Watched(model)
    part, pace = _Answers(model), Pace(ctx, batches.count or 0)
    source = iter(batches.dataset)
    first = list(_first(source))
    part.take(first, pace)
    if reducer.size > 1 and any(reducer.all_gather(bool(watched.changed()))):
        if reducer.rank:
            return Part()
        ctx.note(
            "info",
            "Only one task predicts",
            "The model's state changes when it predicts (a stateful layer, or random numbers), so its output for a "
            "batch depends on earlier batches: the first task predicts for all of the data",
        )
        watched.put_back()
        batches = batches_of(job, ctx, 0, 1)
        part, pace = _Answers(model), Pace(ctx, batches.count or 0)
        source = iter(batches.dataset)
        first = list(_first(source))
        part.take(first, pace)
    if first and not part.all_alike(batches, pace):
        part.take(source, pace)
    pace.end()
    return part.result(batches.in_turn, watched.changed())


def _first(source: Iterator[Any]) -> Iterator[Any]:
    with suppress(StopIteration):
        yield next(source)


class _Answers:
    """The predictions of a model so far."""

    def __init__(self, model: Any) -> None:
        self._model = model
        model.make_predict_function()
        self._structure: Any = None
        self._outputs: list[list[Any]] = []

    def take(self, source: Iterable[Any], pace: Pace) -> None:
        """Predict batch by batch, with Keras's own function."""
        for batch in source:
            outputs = self._model.predict_function([batch])
            if self._structure is None:
                self._begin(outputs)
            for kept, output in zip(self._outputs, keras.tree.flatten(outputs), strict=True):
                kept.append(output.numpy())
            if not pace.add(1):
                return

    def _begin(self, outputs: Any) -> None:
        flat = keras.tree.flatten(outputs)
        for number, output in enumerate(flat):
            if not isinstance(output, tf.Tensor):
                raise InvalidInput(
                    "cluster.predict returns arrays: every output of the model must be a dense tensor, got "
                    f"{type(output).__name__} for output {number}. Call to_tensor() on ragged and tf.sparse.to_dense() "
                    "on sparse outputs in the model",
                    field="model",
                )
        self._structure = keras.tree.pack_sequence_as(outputs, list(range(len(flat))))
        self._outputs = [[] for _ in flat]

    def all_alike(self, batches: TaskBatches, pace: Pace) -> bool:
        """Predict for all but the first of ``batches``, with many full batches per call.

        Returns:
            True if these batches are done, or a stop of the run was requested. False, without having predicted
            anything, if the data is not arrays, the model runs eagerly, or the shapes of the outputs are not known in
            advance.
        """
        if batches.full is None or batches.fulls < 3 or self._model.run_eagerly:
            return False
        try:
            many = _many(self._model, batches.full.element_spec)
        except _ShapesUnknown:
            return False
        source = iter(batches.full.skip(1))
        left, at_once = batches.fulls - 1, 4
        while left:
            count, begin = min(at_once, left), time.perf_counter()
            for kept, output in zip(self._outputs, many(source, tf.constant(count)), strict=True):
                kept.append(output.numpy())
            left -= count
            if not pace.add(count):
                return True
            if time.perf_counter() - begin < CALL_S / 2:
                at_once *= 2
        self.take(batches.dataset.skip(batches.fulls), pace)
        return True

    def result(self, in_turn: bool, changed: dict[int, Any]) -> Part:
        size = sum(array.nbytes for arrays in self._outputs for array in arrays)
        if size > MOST_BYTES:
            raise InvalidInput(
                f"A task's predictions must be at most {bytes_(MOST_BYTES)} in size, got {bytes_(size)}. Predict one "
                "part of the data at a time, or use a Dask collection, whose predictions stay on the workers",
                field="x",
            )
        outputs = self._outputs if in_turn else [_joined(arrays) for arrays in self._outputs]
        return Part(self._structure, outputs, in_turn, changed)


class _ShapesUnknown(Exception):
    """The shapes of a model's outputs, except the batch dimension, are not known in advance."""


def _many(model: Any, spec: Any) -> Callable[[Any, Any], list[tf.Tensor]]:
    """Return a function that takes an iterator and a number of batches, and predicts for these batches in one
    TensorFlow call.

    Raises _ShapesUnknown if the function cannot be created without these shapes.
    """
    step = tf.autograph.experimental.do_not_convert(model.predict_step)
    if model.jit_compile:
        step = tf.function(step, jit_compile=True, reduce_retracing=True)

    @tf.autograph.experimental.do_not_convert
    def one(batch: Any) -> list[tf.Tensor]:
        outputs: list[tf.Tensor] = keras.tree.flatten(step(batch))
        return outputs

    shapes = [
        (output.shape, output.dtype) for output in tf.function(one).get_concrete_function(spec).structured_outputs
    ]
    if any(shape.rank in (None, 0) or not shape[1:].is_fully_defined() for shape, _ in shapes):
        raise _ShapesUnknown

    @tf.function(autograph=False)
    def many(source: Any, count: tf.Tensor) -> list[tf.Tensor]:
        arrays = [
            tf.TensorArray(dtype, count, infer_shape=False, element_shape=[None, *shape[1:]]) for shape, dtype in shapes
        ]

        def body(number: tf.Tensor, arrays: list[Any]) -> tuple[tf.Tensor, list[Any]]:
            outputs = one(source.get_next())
            written = [array.write(number, output) for array, output in zip(arrays, outputs, strict=True)]
            return number + 1, written

        _, arrays = tf.while_loop(
            lambda number, _: number < count, body, (tf.constant(0), arrays), parallel_iterations=1
        )
        return [array.concat() for array in arrays]

    return many  # type: ignore[no-any-return]


def _joined(arrays: list[Any]) -> list[Any]:
    """Join a list's arrays into one if they differ only in the batch dimension; otherwise, return it unchanged."""
    if len(arrays) > 1 and arrays[0].ndim and len({array.shape[1:] for array in arrays}) == 1:
        return [np.concatenate(arrays)]
    return arrays
