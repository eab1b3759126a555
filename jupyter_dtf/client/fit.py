"""The client side of ``fit``: validates and packs the arguments, and puts the results into the caller's model.

Every error that can be detected in advance is raised here, before anything starts.
"""

from __future__ import annotations

import dataclasses
import random
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backend.task import fit as task_fit
from ..backend.task.fit.batched import check_batched
from ..backend.task.fit.callback_pickles import Pickles
from ..backend.task.fit.checks import Asked
from ..backend.task.fit.job import Arrays, Data, FitJob, FitResult
from ..backend.task.fit.pipeline.checks import checked_layers
from ..backend.task.fit.sources.base import BatchSource
from ..backend.task.fit.sources.stream import StreamSource
from ..backend.task.fit.strategies import validate
from ..backend.task.model import changed_attributes, keras_io
from ..backend.task.model.model_state import give_more, give_own, set_trainable
from ..backend.task.model.questions import difference
from ..errors import InvalidInput, ModelDiffers
from ..schema.arguments import plain
from ..schema.checkpoint import Checkpoint
from ..schema.origin import Origin, Source
from ..schema.placement import Placement
from ..schema.restart import Restart
from ..schema.strategy import ParameterServer, Pipeline, Strategy, parse_strategy
from . import pipeline_placement, trained_weights
from .fit_arguments import (
    check_count,
    check_frequency,
    checked_class_weights,
    checked_split,
    checked_warmup,
    count_or_none,
)
from .fit_callbacks import callback_list, packed_callbacks, warn_of_changes_outside, warn_of_copies
from .fit_data import (
    check_batch_size,
    check_one_output,
    check_shuffle,
    data_of,
    held_by,
    runs_own_code,
    split_off,
    validation_of,
)
from .fit_parameters import form_of, shown_parameters
from .found_origin import code_of, origin_of
from .given_back import give_attributes
from .held_resources import Held
from .keras_settings import keras_settings, limited

if TYPE_CHECKING:
    from ..backend.task.fit.where_to_begin import ModelAt
    from .feeding import Feed


class PreparedFit:
    """A training run that is ready to be sent. Every task calls ``program`` as ``function(*args, ctx)``."""

    def __init__(
        self,
        source: Any,
        job: FitJob,
        callbacks: list[Any],
        parameters: dict[str, Any],
        design: Source | None = None,
    ) -> None:
        self._source = source
        self.design = design
        """The design that the placement comes from; None if there is no design."""
        self._callbacks = callbacks
        self._job = job
        self._result: FitResult | None = None
        self._model: Any = source if isinstance(job.model, keras_io.PackedModel) else None
        self.program: tuple[Any, tuple[Any, ...], dict[str, Any]] = (task_fit.run, (job,), {})
        self.strategy = job.strategy
        # A spare process has already initialized TensorFlow. It must not be used if a caller's function may have to
        # configure TensorFlow before that.
        functions = any(runs_own_code(data) for data in (job.data, job.validation_data))
        functions = functions or not isinstance(job.model, keras_io.PackedModel)
        self.may_be_spare = job.strategy.may_be_spare and not functions
        self.rejoins = job.strategy.may_rejoin
        self.name = str(getattr(source, "name", None) or getattr(source, "__name__", "fit"))
        self.parameters = parameters
        self.weights = parameters.get("weights")
        self.data = form_of(job.data)

    @property
    def origin(self) -> Origin:
        """The versions, commit, model and data that a run started now would record."""
        return origin_of(self.name, self.weights, self.data)

    @property
    def code(self) -> list[Source]:
        """The source code to record with the run, where available."""
        given = (
            self._source,
            *(getattr(data, "function", None) for data in (self._job.data, self._job.validation_data)),
        )
        return code_of(*given)

    @classmethod
    def found(cls, job: FitJob) -> PreparedFit:
        """Recreate the ``PreparedFit`` of a run that another process submitted. The model is created on first use."""

        @cache
        def made() -> Any:
            packed = job.model
            return keras_io.unpack(packed) if isinstance(packed, keras_io.PackedModel) else packed()

        # Where a callback refers to a part of the model that does not exist before the model is built, the reference is
        # None until the result replaces it.
        found = Pickles(made).loads(job.callbacks.chiefs, whole=False) if job.callbacks else {}
        self = cls(made, job, list(found.values()), {})
        self._model = None
        return self

    @property
    def goes_on(self) -> bool:
        """Whether the training writes checkpoints and can therefore be continued."""
        return self._job.checkpoint is not None

    @property
    def feeds(self) -> list[Feed]:
        """The streams that this process reads during training."""
        given = (self._job.data, self._job.validation_data)
        return [data.feed for data in given if isinstance(data, StreamSource) and data.feed is not None]

    @property
    def program_without_data(self) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """The program without its data, from which another process can recreate the model."""
        none = Arrays(np.zeros(0))
        return task_fit.run, (dataclasses.replace(self._job, data=none, validation_data=None),), {}

    def from_checkpoint(self, path: str) -> PreparedFit:
        """Return a copy that continues from a checkpoint."""
        job = dataclasses.replace(self._job, resume=path)
        if isinstance(job.data, StreamSource):
            job.data = job.data.anew()
        if isinstance(job.validation_data, StreamSource):
            job.validation_data = job.validation_data.anew()
        return PreparedFit(self._source, job, self._callbacks, self.parameters, self.design)

    def model_at(self, path: str) -> ModelAt:
        """Return a new model with a checkpoint's weights and optimizer state. The caller's model is not changed."""
        from ..backend.task.fit.where_to_begin import model_at

        return model_at(self._job, path)

    def take(self, found: ModelAt) -> Any:
        """Copy the weights and the optimizer state of ``found`` into the model that was passed, and return that model.

        If the caller passed a function and its model has not been created yet, keep and return the model of ``found``.
        """
        if self._model is None:
            self._model = found.model
        else:
            if not self._model.built:
                keras_io.build(self._model, found.batch)
            keras_io.assign(self._model.weights, found.model.get_weights(), "weights")
            self._model.optimizer.build(self._model.trainable_variables)
            values = [variable.numpy() for variable in found.model.optimizer.variables]
            keras_io.assign(self._model.optimizer.variables, values, "optimizer variables")
        return self._model

    def finish_at(self, found: ModelAt, history: Mapping[str, list[float]], epoch: list[int]) -> None:
        """Finish from a checkpoint written at the end of training, because the result is no longer available.

        The values that callbacks recorded are lost. If there are callbacks, a warning lists them.
        """
        model = self.take(found)
        model.optimizer.finalize_variable_values(model.trainable_variables)  # as Keras does at the end of training
        _give_history(model, dict(history), epoch, self._callbacks)
        if self._callbacks:
            names = ", ".join(type(callback).__name__ for callback in self._callbacks)
            warnings.warn(
                "The result of the run is no longer available, so the model has the weights of the last checkpoint, "
                f"after step {found.step}. Everything that these callbacks recorded, or did at the end of training, is "
                f"lost: {names}",
                stacklevel=4,
            )

    def finish(self, result: FitResult) -> None:
        """Apply the chief's result: put the trained weights into the model, and the recorded values into the callbacks.

        Afterwards, raise ModelDiffers if the model's outputs differ from those in the task that trained it.
        """
        self._result = result
        if self._model is not None:
            _restore(self._model, result, self._callbacks)
        if self._callbacks:
            pickles = Pickles(self._trained, dict(enumerate(self._callbacks)))
            for callback, attributes in zip(self._callbacks, pickles.loads(result.callbacks), strict=True):
                give_attributes(callback, attributes)
                callback.set_params(result.params)
                if self._model is not None:
                    callback.set_model(self._model)
        if self._model is not None:
            _ask(self._model, result)

    def check_jobs(self, jobs: Mapping[str, int], restart: Restart | None = None) -> None:
        """Raise InvalidInput if these tasks, or the fewest workers that ``restart`` allows, cannot train the model."""
        least = restart.min_workers if restart is not None else None
        validate(Asked.of(self._job, jobs, min_workers=least), self._model)

    def worker_group(self, jobs: Mapping[str, int]) -> int:
        """Return the number of tasks that can only train together (``RunRequest.worker_group``).

        For a pipeline, this is the number of tasks of one copy; for other strategies, it is 1.
        """
        strategy = self._job.strategy
        return strategy.smallest_group(sum(jobs.get(job, 0) for job in strategy.jobs))

    def hold(self, client: Callable[[], Any]) -> list[Held]:
        """Start computing the data that the cluster will hold. ``client()`` returns a Dask client of the cluster.

        Raises InvalidInput for data that the cluster cannot hold.
        """
        return held_by((self._job.data, self._job.validation_data), client)

    @property
    def updates(self) -> dict[str, dict[str, int]]:
        """The numbers of gradient updates, as in ``FitResult.updates``. Call ``finish`` first."""
        return self._result.updates if self._result is not None else {}

    @property
    def model(self) -> Any:
        """The trained model: the caller's model, or one created by the caller's function. Call ``finish`` first."""
        if self._model is None:
            if self._result is None:
                raise RuntimeError("There is no trained model, because the run has no result")
            model = self._trained()  # later calls return it even if its outputs differ
            _ask(model, self._result)
        return self._model

    def _trained(self) -> Any:
        """Return the trained model; if it was passed as a function, create it."""
        if self._model is None:
            assert self._result is not None
            model = self._source()
            _restore(model, self._result, self._callbacks)
            self._model = model
        return self._model


def prepare(
    model: Any,
    x: Any = None,
    y: Any = None,
    *,
    strategy: Any = "allreduce",
    batch_size: int | None = None,
    epochs: int = 1,
    verbose: Any = "auto",
    callbacks: Any = None,
    validation_split: float = 0.0,
    validation_data: Any = None,
    shuffle: bool = True,
    class_weight: dict[int, float] | None = None,
    sample_weight: Any = None,
    initial_epoch: int = 0,
    steps_per_epoch: int | None = None,
    validation_steps: int | None = None,
    validation_batch_size: int | None = None,
    validation_freq: Any = 1,
    scale_lr: bool = False,
    warmup_epochs: float | None = None,
    check: bool = True,
    checkpoint: Checkpoint | bool | None = None,
    resume: str | None = None,
) -> PreparedFit:
    """Validate the arguments of ``Cluster.fit`` and prepare them to be sent.

    ``x`` and ``validation_data`` may be arrays, have any form that ``client.sources`` supports, or be a function
    ``data_fn(ctx)`` that returns a batched ``tf.data.Dataset``. ``checkpoint`` is as in ``RunOptions``; ``resume`` is
    the path of a checkpoint or of a directory of checkpoints. Raises InvalidInput.
    """
    del verbose
    epochs = check_count("epochs", epochs, 1)
    initial_epoch = check_count("initial_epoch", initial_epoch, 0)
    batch_size = count_or_none("batch_size", batch_size)
    steps_per_epoch = count_or_none("steps_per_epoch", steps_per_epoch)
    validation_steps = count_or_none("validation_steps", validation_steps)
    validation_batch_size = count_or_none("validation_batch_size", validation_batch_size)
    check_shuffle(shuffle)
    warmup_epochs = checked_warmup(scale_lr, warmup_epochs)
    epochs, steps_per_epoch, validation_steps = limited(epochs, steps_per_epoch, validation_steps)
    data = data_of(x, y, sample_weight, "x")
    if batch_size is not None:
        check_batch_size(data, batch_size)
    if class_weight is not None and sample_weight is not None:
        raise InvalidInput("`class_weight` must not be combined with sample_weight", field="class_weight")
    validation = validation_of(validation_data)
    validation_split = checked_split(validation_split)
    if validation_split and validation is None:
        data, validation = split_off(data, validation_split)
    validation_freq = plain(validation_freq)
    if validation is not None:
        check_frequency(validation_freq)
    weights = None if class_weight is None else checked_class_weights(class_weight)
    if weights is not None:
        check_one_output(data, x)
    own = callback_list(callbacks)
    packed = packed_callbacks(own, model)
    warn_of_changes_outside(own)
    if isinstance(data, BatchSource) and data.is_copied:
        warn_of_copies(own, model, x)
    if isinstance(packed_model := _packed(model), keras_io.PackedModel):
        trained_weights.warn_of_changes(model)
    chosen, design = pipeline_placement.with_placement(parse_strategy(strategy))
    job = FitJob(
        model=packed_model,
        data=data,
        validation_data=validation,
        batch_size=batch_size,
        validation_batch_size=validation_batch_size,
        epochs=epochs,
        initial_epoch=initial_epoch,
        shuffle=bool(shuffle),
        class_weight=weights,
        steps_per_epoch=steps_per_epoch,
        validation_steps=validation_steps,
        validation_freq=validation_freq,
        callbacks=packed,
        strategy=chosen,
        checkpoint=_policy(checkpoint, chosen),
        resume=resume,
        seed=random.getrandbits(31),  # from the generator that keras.utils.set_random_seed seeds
        scale_lr=bool(scale_lr),
        warmup_epochs=warmup_epochs,
        check=bool(check),
        keras_config=keras_settings(),
    )
    is_here = isinstance(job.model, keras_io.PackedModel)
    if is_here:
        _check_batched(model, x, data, "x")
        _check_batched(model, validation_data, validation, "validation_data")
    validate(Asked.of(job), model if is_here else None)
    if is_here and model.built and isinstance(job.strategy, Pipeline):
        assert isinstance(job.strategy.placement, Placement)
        job.layers = checked_layers(job.strategy.placement, model)
    return PreparedFit(model, job, own, shown_parameters(model, job), design)


def _check_batched(model: Any, given: Any, data: Data | None, field: str) -> None:
    """Raise InvalidInput for unbatched data, if its shapes are known in this process."""
    if isinstance(data, BatchSource) and (spec := getattr(given, "element_spec", None)) is not None:
        check_batched(model, spec, data.what, field)
    elif isinstance(data, StreamSource):
        batch = tuple(data.leaves[part] if isinstance(part, int) else part for part in data.structure)
        check_batched(model, batch, data.what, field, divided=True)


def _policy(checkpoint: Checkpoint | bool | None, strategy: Strategy) -> Checkpoint | None:
    """Return the checkpoint policy, by default ``Checkpoint()``; None for no checkpoints. Raises InvalidInput."""
    if checkpoint is False:
        return None
    policy = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint()
    if policy.every_seconds is not None and isinstance(strategy, ParameterServer) and strategy.goes_in_step:
        raise InvalidInput(
            "`checkpoint` must use every_steps or every_epochs with synchronous parameter servers, got "
            f"every_seconds={policy.every_seconds!r}",
            field="checkpoint.every_seconds",
        )
    return policy


# -- the model -----------------------------------------------------------------------------------------------------


def _packed(model: Any) -> keras_io.PackedModel | Callable[[], Any]:
    if callable(model) and not hasattr(model, "compile_from_config"):
        return model  # type: ignore[no-any-return]
    return keras_io.pack(model)


def _restore(model: Any, result: FitResult, callbacks: list[Any]) -> None:
    if not model.built or (result.weights and not model.weights):  # build() only marks some subclasses as built
        keras_io.build(model, result.batch)
    give_own(model, result.more)
    keras_io.assign(model.weights, result.weights, "weights")
    if model.optimizer is not None:
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        keras_io.assign(model.optimizer.variables, result.optimizer, "optimizer variables")
    give_more(model, result.more)
    changed_attributes.give(model, result.attributes)
    trained_weights.remember(model)  # before callbacks' changes to `trainable`, which Keras follows after compile()
    set_trainable(model, result.more)
    model.stop_training = result.stop_training
    _give_history(model, result.history, result.epoch, callbacks).set_params(result.params)


def _give_history(model: Any, values: dict[str, list[float]], epoch: list[int], callbacks: list[Any]) -> Any:
    """Set the model's history, which is the caller's own ``History`` callback if there is one. Return it."""
    import keras

    own = (callback for callback in callbacks if isinstance(callback, keras.callbacks.History))
    history = next(own, None) or keras.callbacks.History()
    history.history, history.epoch = values, epoch
    history.set_model(model)
    model.history = history
    return history


def _ask(model: Any, result: FitResult) -> None:
    """Raise ModelDiffers unless the trained model computes the same outputs here as in the task that trained it."""
    if result.question is None:
        return
    found = difference(model, result.question)
    if found:
        raise ModelDiffers(
            "The trained model does not compute the same outputs here as in the task that trained it: on the same "
            f"examples, {found}. The model depends on a value that was not sent to the task, because it is neither in "
            "a variable nor in get_config() nor a plain attribute of a layer, or because it has changed here since. "
            "The model does hold the trained weights. Move such a value into a variable or get_config(), or pass a "
            "function that returns the compiled model and is called in the tasks"
        )
