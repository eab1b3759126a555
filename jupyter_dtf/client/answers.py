"""The client side of ``predict`` and ``evaluate``: prepares the arguments and assembles the tasks' results."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backend.task import answers as task_answers
from ..backend.task.answers.job import AnswerJob, Evaluated, Part
from ..backend.task.fit.job import Arrays, Data
from ..backend.task.fit.sources.base import BatchSource
from ..backend.task.model import keras_io
from ..backend.task.model.model_state import states_of
from ..errors import InvalidInput
from .fit_arguments import count_or_none
from .fit_data import check_batch_size, data_of, held_by, length_of, runs_own_code
from .held_generator import held_batches, is_read_once
from .held_resources import Held
from .keras_settings import keras_settings, limited
from .sources.dask_collections import DaskCollections


class PreparedAnswer:
    """A ``predict`` or ``evaluate`` run that is ready to be sent.

    Every task calls ``program`` as ``function(*args, ctx)``.
    """

    def __init__(self, source: Any, job: AnswerJob) -> None:
        self.kind = "evaluate" if job.evaluates else "predict"
        self.program: tuple[Any, tuple[Any, ...], dict[str, Any]] = (task_answers.run, (job,), {})
        is_here = isinstance(job.model, keras_io.PackedModel)
        self._model = source if is_here else None
        self._data = job.data
        self.may_be_spare = is_here and not runs_own_code(job.data)
        name = str(getattr(source, "name", None) or getattr(source, "__name__", "model"))
        self.name = f"{self.kind} {name}"
        self.parameters = _parameters(job)

    def hold(self, client: Callable[[], Any]) -> list[Held]:
        """Start computing the data that the cluster will hold. See ``PreparedFit.hold``."""
        return held_by([self._data], client)

    def give_back(self, changed: dict[int, Any]) -> None:
        """Update the state of the model that was passed, as calling the model in this process would have done."""
        if self._model is None or not changed:
            return
        states = states_of(self._model)
        for number, value in changed.items():
            if number < len(states) and tuple(states[number].shape) == value.shape:
                states[number].assign(value)


def prepare(
    model: Any,
    x: Any,
    y: Any = None,
    *,
    evaluates: bool,
    batch_size: int | None = None,
    sample_weight: Any = None,
    steps: int | None = None,
    callbacks: Any = None,
    return_dict: bool = False,
) -> PreparedAnswer:
    """Validate the arguments of ``Cluster.predict`` or ``evaluate`` and prepare to send them. Raises InvalidInput."""
    batch_size, steps = count_or_none("batch_size", batch_size), count_or_none("steps", steps)
    refuse_callbacks(callbacks)
    _, steps = limited(1, steps)
    data: Data
    if is_read_once(x):
        data = held_batches(x, y, sample_weight, steps)
    else:
        data = data_of(x, y, sample_weight, "x")
    if getattr(data, "continues", False):
        # Only this process can read such data. In training, each task receives its share of each batch, but here a task
        # needs whole batches.
        if steps is None and getattr(data, "batches", None) == -1:
            raise InvalidInput(
                f"`steps` must be given for an infinite dataset, got None for {x!r:.200}",
                field="steps",
            )
        data = held_batches(iter(x), y, sample_weight, steps)
    if not evaluates and isinstance(data, DaskCollections):
        raise InvalidInput(
            "`x` must be a Dask array, dataframe or bag, so that cluster.predict can return one, got "
            f"{x!r:.200}. Convert delayed objects and futures first",
            field="x",
        )
    if batch_size is not None:
        check_batch_size(data, batch_size)
    is_made_there = callable(model) and not hasattr(model, "compile_from_config")
    job = AnswerJob(
        model=model if is_made_there else keras_io.pack(model, compiled=evaluates),
        data=data,
        evaluates=evaluates,
        batch_size=batch_size,
        steps=steps,
        return_dict=bool(return_dict),
        keras_config=keras_settings(),
    )
    if isinstance(job.model, keras_io.PackedModel):
        job.model = dataclasses.replace(job.model, optimizer=[])  # nothing is trained here
        if not evaluates and model.compiled:
            job.how = {"run_eagerly": bool(model.run_eagerly), "jit_compile": bool(model.jit_compile)}
    return PreparedAnswer(model, job)


def refuse_callbacks(callbacks: Any) -> None:
    """Raise InvalidInput if there are any callbacks."""
    if callbacks:
        raise InvalidInput(
            "`callbacks` must be None, because each task computes different batches and no process sees all of them, "
            f"got {callbacks!r:.200}",
            field="callbacks",
        )


def _parameters(job: AnswerJob) -> dict[str, Any]:
    """Return the settings of the run that the dashboard shows."""
    if isinstance(job.data, Arrays):
        return {"batch_size": job.batch_size or 32, "examples": length_of(job.data)}
    if isinstance(job.data, BatchSource) and job.data.examples is not None:
        return {"examples": job.data.examples}
    return {}


def evaluation(found: Evaluated) -> Any:
    """Return the loss and metrics in the form that ``keras.Model.evaluate`` returns."""
    return found.logs if found.return_dict else found.values


def predictions(parts: Sequence[Part]) -> Any:
    """Combine the tasks' results, ``parts`` in rank order, into the predictions in the order of the examples.

    The result consists of NumPy arrays in the structure of the model's outputs. As in Keras, an array is a
    ``tf.RaggedTensor`` if batches differ in a dimension other than the batch dimension. Raises InvalidInput if there
    was no batch.
    """
    answered = [part for part in parts if part.structure is not None]
    if not answered:
        raise InvalidInput("`x` must hold at least one batch, got none", field="x")
    in_turn = answered[0].in_turn
    import keras

    outputs = []
    for number in range(len(answered[0].outputs)):
        lists = [part.outputs[number] for part in answered]
        outputs.append(_concatenated(_by_turns(lists) if in_turn else [array for each in lists for array in each]))
    return keras.tree.map_structure(lambda number: outputs[number], answered[0].structure)


def _by_turns(lists: list[list[Any]]) -> list[Any]:
    """Interleave the lists: the first item of each, then the second of each, and so on."""
    return [each[number] for number in range(len(lists[0])) for each in lists if number < len(each)]


def _concatenated(arrays: list[Any]) -> Any:
    """Concatenate the outputs of batches as Keras does."""
    if len(arrays) == 1:
        return arrays[0]
    if len({array.shape[1:] for array in arrays}) == 1:
        return np.concatenate(arrays) if arrays[0].ndim else np.stack(arrays)
    import tensorflow as tf

    # Keras 3.15: the function that joins the batches of predict, including ragged ones, is not public.
    from keras.src.backend.tensorflow.trainer import potentially_ragged_concat

    return potentially_ragged_concat([tf.convert_to_tensor(array) for array in arrays])
