"""Finds the checkpoint from which a training run resumes, compares it with the model and the data, and determines which
steps to skip.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras

from ....errors import InvalidInput, NotFound
from ..checkpoint import files
from ..checkpoint.places import Place, at, directory_of, place_of
from ..collectives.primitive import Reducer
from ..model import keras_io
from .checkpoint_state import Begin, FitState, data_of, variables_of
from .data import Skip
from .gradient_sync import optimizers_of
from .job import FitJob

MOST_NAMED = 3


def where_to_begin(job: FitJob, ctx: Any, reducer: Reducer) -> tuple[Begin | None, files.Stored | None]:
    """Return the contents of the checkpoint that a job resumes from, if any, and, on the chief, its files. A
    collective.

    Raises InvalidInput or NotFound, on every task, if there is no valid training checkpoint.
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
                    f"Training continues from step {stored.manifest.step}: later checkpoints are damaged",
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
    """Return the path to resume from, which was given when the run was started or by its program; empty if none was
    given.
    """
    return str(ctx.goes_on_from or job.resume or "")


def _newest(place: Place) -> files.Stored:
    return at(place).newest(place)


def _read(stored: files.Stored, again: bool) -> Begin:
    if stored.manifest.kind != "fit":
        raise InvalidInput(
            f"`resume` must be a checkpoint of a training run, got {stored.info.path!r} of kind "
            f"{stored.manifest.kind!r}",
            field="resume",
        )
    state = stored.state()
    if not isinstance(state, FitState):
        raise InvalidInput(
            f"`resume` must be a checkpoint with a training state, got {stored.info.path!r} without one", field="resume"
        )
    return Begin(stored.info, stored.manifest.variables, state, is_of_this_run=again)


def check_model(begin: Begin, model: Any, optimizers: Sequence[Any]) -> None:
    """Raise InvalidInput, listing the differences, unless a checkpoint fits the model and its optimizers."""
    here = [
        (key, list(v.shape), keras.backend.standardize_dtype(v.dtype)) for key, v in variables_of(model, optimizers)
    ]
    there = [(stored.key, stored.shape, stored.dtype) for stored in begin.variables]
    differing = []
    for (key, shape, dtype), (their_key, their_shape, their_dtype) in zip(here, there, strict=False):
        if (_place(key), shape, dtype) != (_place(their_key), their_shape, their_dtype):
            differing.append(f"{_words(key, shape, dtype)} instead of {_words(their_key, their_shape, their_dtype)}")
    for kind, longer, shorter in (("not in the checkpoint", here, there), ("not in the model", there, here)):
        differing += [f"{_words(*variable)}, {kind}" for variable in longer[len(shorter) :]]
    if differing:
        more = f", and {len(differing) - MOST_NAMED} more" if len(differing) > MOST_NAMED else ""
        raise InvalidInput(
            f"`resume` must be a checkpoint of the same model and optimizer, got {begin.info.path!r} with "
            f"differences: {'; '.join(differing[:MOST_NAMED])}{more}",
            field="resume",
        )


def check_data(begin: Begin, job: FitJob, steps_per_execution: int) -> None:
    """Raise InvalidInput unless the job's settings give a step in the middle of an epoch the same data as before."""
    in_the_middle = begin.info.step_in_epoch or any(within for _, within, _ in begin.state.places)
    if not in_the_middle and job.steps_per_epoch is None:
        return
    there, here = begin.state.data, data_of(job)
    if here != there:
        raise InvalidInput(
            "`resume`: in the middle of an epoch, the number of examples and the batch size must stay the same, got "
            f"{here} instead of {there}",
            field="resume",
        )
    if (
        steps_per_execution > 1
        and job.steps_per_epoch
        and here.get("examples", 0) > job.steps_per_epoch * here.get("batch_size", 0)
    ):
        raise InvalidInput(
            "`steps_per_execution` must be 1 to resume a training run whose epochs use only some examples, got "
            f"{steps_per_execution} with steps_per_epoch={job.steps_per_epoch}",
            field="resume",
        )
    if begin.info.step_in_epoch % steps_per_execution:
        raise InvalidInput(
            f"`steps_per_execution` must divide the number of steps done in the epoch, {begin.info.step_in_epoch}, "
            f"got {steps_per_execution}",
            field="resume",
        )


class ModelAt(NamedTuple):
    """A new model with the weights and the optimizer's state from a checkpoint."""

    model: Any
    step: int
    """The number of steps done when the checkpoint was saved."""
    epoch: int
    """See ``CheckpointInfo.epoch``."""
    batch: Any
    """The structure of a batch, as in ``FitResult.batch``."""


def model_at(job: FitJob, path: str) -> ModelAt:
    """Return a job's model with the state from a checkpoint. Raises InvalidInput or NotFound if the checkpoint is
    missing, invalid, or of another model.
    """
    stored = _newest(place_of(path))
    begin = _read(stored, again=False)
    model = keras_io.unpack(job.model) if isinstance(job.model, keras_io.PackedModel) else job.model()
    keras_io.build(model, begin.state.batch)
    if isinstance(job.model, keras_io.PackedModel):
        keras_io.restore(model, job.model)
    optimizers = optimizers_of(model)
    check_model(begin, model, optimizers)
    restore_checkpoint(begin, stored, model, optimizers)
    return ModelAt(model, begin.info.step, begin.info.epoch, begin.state.batch)


def restore_checkpoint(begin: Begin, stored: files.Stored, model: Any, optimizers: Sequence[Any]) -> None:
    """Restore a model and its optimizers from a checkpoint. ``check_model`` must have accepted them."""
    arrays = stored.arrays()
    keys = [variable.key for variable in begin.variables]
    for key, (_, variable) in zip(keys, variables_of(model, optimizers), strict=True):
        variable.assign(arrays[key])


def skip_of(begin: Begin | None, job: FitJob, steps_per_execution: int) -> Skip | None:
    """Return the part that resumed training skips because it is already done, or None if nothing is skipped."""
    if begin is None or (not begin.info.step_in_epoch and job.steps_per_epoch is None):
        return None
    return skip_until(begin.info.epoch, begin.info.step_in_epoch, begin.state.first_epoch, job, steps_per_execution)


def skip_until(epoch: int, within: int, first: int, job: FitJob, steps_per_execution: int) -> Skip:
    """Return the part that training skips if it began at epoch ``first`` and resumes after ``within`` steps of
    ``epoch``.
    """
    passed = (epoch - first) * (job.steps_per_epoch or 0)
    takes = steps_per_execution if steps_per_execution > 1 else 0
    return Skip(within, -(-within // steps_per_execution), takes, passed, first)  # the last execution may be shorter


def _place(key: str) -> list[str]:
    return key.split("/")[:2]


def _words(key: str, shape: list[int], dtype: str) -> str:
    group, _, path = key.split("/", 2)
    return f"{path} of the {group}, {dtype} of shape {tuple(shape)}"
