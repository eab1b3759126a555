"""Where a training goes on: a checkpoint found, held against the model and the data, and what of these is left out."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import keras

from ....errors import InvalidInput, NotFound
from ..checkpoint import files
from ..checkpoint.places import Place, at, directory_of, place_of
from ..collectives.contract import Reducer
from ..model import keras_io
from .checkpoint_state import Begin, FitState, data_of, variables_of
from .data import Skip
from .gradient_sync import optimizers_of
from .job import FitJob

MOST_NAMED = 3


def where_to_begin(job: FitJob, ctx: Any, reducer: Reducer) -> tuple[Begin | None, files.Stored | None]:
    """The checkpoint that a job goes on from, if it does, and on the chief its files. A collective.

    Raises InvalidInput or NotFound, on every task, for what is no checkpoint of a training.
    """
    again = job.checkpoint is not None and ctx.attempt > 1
    if not again and not _named(job, ctx):
        return None, None
    told: Any = None
    stored = None
    if reducer.rank == 0:
        try:
            stored = _find(job, ctx, again)
            told = None if stored is None else _read(stored, again)
            if stored is not None and stored.passed_over:
                ctx.note(
                    "warning",
                    f"The training goes on from step {stored.manifest.step}, for what was saved later is damaged",
                    "; ".join(stored.passed_over),
                )
        except (InvalidInput, NotFound, OSError) as error:
            told = type(error), str(error)
    told = reducer.all_gather(told)[0]
    if isinstance(told, tuple):
        kind, text = told
        raise kind(text)
    return told, stored


def _find(job: FitJob, ctx: Any, again: bool) -> files.Stored | None:
    if again:
        assert job.checkpoint is not None
        with contextlib.suppress(NotFound):
            return _newest(directory_of(job.checkpoint, ctx))
    named = _named(job, ctx)
    return _newest(place_of(named)) if named else None


def _named(job: FitJob, ctx: Any) -> str:
    """Where a training is to go on, by who has started the run, or by its program."""
    return str(ctx.goes_on_from or job.resume or "")


def _newest(place: Place) -> files.Stored:
    return at(place).newest(place)


def _read(stored: files.Stored, again: bool) -> Begin:
    if stored.manifest.kind != "fit":
        raise InvalidInput(
            f"A training goes on from a checkpoint of a training. Received: {stored.info.path}, of a "
            f"{stored.manifest.kind}",
            field="resume",
        )
    state = stored.state()
    if not isinstance(state, FitState):
        raise InvalidInput(
            f"A checkpoint of a training has its state. Received: {stored.info.path}, without", field="resume"
        )
    return Begin(stored.info, stored.manifest.variables, state, is_of_this_run=again)


def check_model(begin: Begin, model: Any, optimizers: Sequence[Any]) -> None:
    """Raise InvalidInput, naming what differs, unless a checkpoint is of such a model with such optimizers."""
    here = [
        (key, list(v.shape), keras.backend.standardize_dtype(v.dtype)) for key, v in variables_of(model, optimizers)
    ]
    there = [(stored.key, stored.shape, stored.dtype) for stored in begin.variables]
    differing = []
    for (key, shape, dtype), (their_key, their_shape, their_dtype) in zip(here, there, strict=False):
        if (_place(key), shape, dtype) != (_place(their_key), their_shape, their_dtype):
            differing.append(f"{_words(key, shape, dtype)} instead of {_words(their_key, their_shape, their_dtype)}")
    for kind, longer, shorter in (("more than it has", here, there), ("not here", there, here)):
        differing += [f"{_words(*variable)}, {kind}" for variable in longer[len(shorter) :]]
    if differing:
        more = f", and {len(differing) - MOST_NAMED} more" if len(differing) > MOST_NAMED else ""
        raise InvalidInput(
            f"A training goes on with the model and the optimizer that its checkpoint {begin.info.path} is of. "
            f"Received: {'; '.join(differing[:MOST_NAMED])}{more}",
            field="resume",
        )


def check_data(begin: Begin, job: FitJob, steps_per_execution: int) -> None:
    """Raise InvalidInput unless a step in the middle of an epoch means what it meant."""
    in_the_middle = begin.info.step_in_epoch or any(within for _, within, _ in begin.state.places)
    if not in_the_middle and job.steps_per_epoch is None:
        return
    there, here = begin.state.data, data_of(job)
    if here != there:
        raise InvalidInput(
            f"In the middle of an epoch a training goes on with as many examples and as large batches. Received: "
            f"{here} instead of {there}",
            field="resume",
        )
    if (
        steps_per_execution > 1
        and job.steps_per_epoch
        and here.get("examples", 0) > job.steps_per_epoch * here.get("batch_size", 0)
    ):
        raise InvalidInput(
            "A training whose epochs are parts of the examples goes on with one step per execution. Received: "
            f"steps_per_execution={steps_per_execution}, steps_per_epoch={job.steps_per_epoch}",
            field="resume",
        )
    if begin.info.step_in_epoch % steps_per_execution:
        raise InvalidInput(
            f"steps_per_execution divides the steps of an epoch that are done: {begin.info.step_in_epoch}. Received: "
            f"{steps_per_execution}",
            field="resume",
        )


def model_at(job: FitJob, path: str) -> tuple[Any, int]:
    """The model of a job with the weights and the optimizer of a checkpoint, and of which step that is.

    Raises InvalidInput, NotFound.
    """
    stored = _newest(place_of(path))
    begin = _read(stored, again=False)
    model = keras_io.unpack(job.model) if isinstance(job.model, keras_io.PackedModel) else job.model()
    keras_io.build(model, begin.state.batch)
    if isinstance(job.model, keras_io.PackedModel):
        keras_io.restore(model, job.model)
    optimizers = optimizers_of(model)
    check_model(begin, model, optimizers)
    restore(begin, stored, model, optimizers)
    return model, begin.info.step


def restore(begin: Begin, stored: files.Stored, model: Any, optimizers: Sequence[Any]) -> None:
    """Give a model and its optimizers, which ``check_model`` has let pass, what a checkpoint has of them."""
    arrays = stored.arrays()
    keys = [variable.key for variable in begin.variables]
    for key, (_, variable) in zip(keys, variables_of(model, optimizers), strict=True):
        variable.assign(arrays[key])


def skip_of(begin: Begin | None, job: FitJob, steps_per_execution: int) -> Skip | None:
    """What of its examples a training leaves out, for it has seen them; None for nothing."""
    if begin is None or (not begin.info.step_in_epoch and job.steps_per_epoch is None):
        return None
    return skip_until(begin.info.epoch, begin.info.step_in_epoch, begin.state.first_epoch, job, steps_per_execution)


def skip_until(epoch: int, within: int, first: int, job: FitJob, steps_per_execution: int) -> Skip:
    """What a training leaves out that began with epoch ``first`` and goes on after ``within`` steps of ``epoch``."""
    passed = (epoch - first) * (job.steps_per_epoch or 0)
    takes = steps_per_execution if steps_per_execution > 1 else 0
    return Skip(within, -(-within // steps_per_execution), takes, passed, first)  # the last of an epoch may be short


def _place(key: str) -> list[str]:
    return key.split("/")[:2]


def _words(key: str, shape: list[int], dtype: str) -> str:
    group, _, path = key.split("/", 2)
    return f"{path} of the {group}, {dtype} of shape {tuple(shape)}"
