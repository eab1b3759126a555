"""The client half of ``fit``: its arguments checked and made to travel, its results put into the caller's model.

What cannot work is refused here, before anything starts, where it can be known here.
"""

from __future__ import annotations

import copy
import dataclasses
import importlib.util
import pickle
import random
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import cloudpickle
import numpy as np

from ..backend.task import fit as task_fit
from ..backend.task.fit.checks import Asked
from ..backend.task.fit.job import Arrays, FitJob, FitResult, PackedCallback
from ..backend.task.fit.pipeline.checks import checked_layers
from ..backend.task.fit.sources.stream import StreamSource
from ..backend.task.fit.strategies import validate
from ..backend.task.model import keras_io
from ..backend.task.model.model_state import give_more, give_own
from ..backend.task.model.questions import difference
from ..errors import InvalidInput, ModelDiffers, Unavailable
from ..schema.checkpoint import Checkpoint
from ..schema.origin import Origin, Source
from ..schema.placement import Placement
from ..schema.strategy import AllReduce, ParameterServer, Pipeline, Strategy, parse_strategy
from . import pipeline_placement
from .fit_data import check_batch_size, data_of, held_by, runs_own_code, split_off, validation_of
from .fit_parameters import form_of, shown_parameters
from .found_origin import code_of, origin_of
from .holding import Held

if TYPE_CHECKING:
    from .feeding import Feed

WARMUP_EPOCHS = 5.0
"""Goyal et al. 2017, section 2.2."""


class PreparedFit:
    """A fit that is ready to be sent. ``program`` is called as ``function(*args, ctx)`` in every task."""

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
        """The design that it was drawn in, where it was."""
        self._callbacks = callbacks
        self._job = job
        self._result: FitResult | None = None
        self._model: Any = source if isinstance(job.model, keras_io.PackedModel) else None
        self.program: tuple[Any, tuple[Any, ...], dict[str, Any]] = (task_fit.run, (job,), {})
        self.strategy = job.strategy
        # A function of the caller's may set TensorFlow up in its own way, and the ring has to be the first to start it.
        functions = any(runs_own_code(data) for data in (job.data, job.validation_data))
        functions = functions or not isinstance(job.model, keras_io.PackedModel)
        reduces = isinstance(job.strategy, AllReduce) and job.strategy.transport != "ring"
        self.may_be_spare = reduces and not functions
        self.rejoins = isinstance(job.strategy, ParameterServer) and not job.strategy.goes_in_step
        self.name = str(getattr(source, "name", None) or getattr(source, "__name__", "fit"))
        self.parameters = parameters
        self.weights = parameters.get("weights")
        self.data = form_of(job.data)

    @property
    def origin(self) -> Origin:
        """What a run of it is made of, now."""
        return origin_of(self.name, self.weights, self.data)

    @property
    def code(self) -> list[Source]:
        """The code that it is submitted with, as far as its source is to be had."""
        given = (
            self._source,
            *(getattr(data, "function", None) for data in (self._job.data, self._job.validation_data)),
        )
        return code_of(*given)

    @classmethod
    def found(cls, job: FitJob) -> PreparedFit:
        """That of a run which another process has submitted: the model is made here when it is asked for."""

        def made() -> Any:
            packed = job.model
            return keras_io.unpack(packed) if isinstance(packed, keras_io.PackedModel) else packed()

        callbacks = [cloudpickle.loads(callback.data) for callback in job.callbacks]
        self = cls(made, job, callbacks, {})
        self._model = None
        return self

    @property
    def goes_on(self) -> bool:
        """Whether it writes checkpoints, from which it can go on."""
        return self._job.checkpoint is not None

    @property
    def feeds(self) -> list[Feed]:
        """The streams that are read in this process while it trains."""
        given = (self._job.data, self._job.validation_data)
        return [data.feed for data in given if isinstance(data, StreamSource) and data.feed is not None]

    @property
    def program_without_data(self) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """The program, but for its data: what another process needs for the model."""
        none = Arrays(np.zeros(0))
        return task_fit.run, (dataclasses.replace(self._job, data=none, validation_data=None),), {}

    def from_checkpoint(self, path: str) -> PreparedFit:
        """The same training, going on from a checkpoint."""
        job = dataclasses.replace(self._job, resume=path)
        if isinstance(job.data, StreamSource):
            job.data = job.data.anew()
        if isinstance(job.validation_data, StreamSource):
            job.validation_data = job.validation_data.anew()
        return PreparedFit(self._source, job, self._callbacks, self.parameters, self.design)

    def model_at(self, path: str) -> Any:
        """The model with the weights and the optimizer of a checkpoint; the one that was passed stays as it is."""
        from ..backend.task.fit.where_to_begin import model_at

        return model_at(self._job, path)[0]

    def restored_from(self, path: str) -> tuple[Any, int]:
        """The model with the weights and the optimizer of a checkpoint, and of which step that is.

        It is the one that was passed, where that is built.
        """
        from ..backend.task.fit.where_to_begin import model_at

        found, step = model_at(self._job, path)
        if self._model is None or not self._model.built:
            self._model = found
        else:
            keras_io.assign(self._model.weights, found.get_weights(), "weights")
            self._model.optimizer.build(self._model.trainable_variables)
            values = [variable.numpy() for variable in found.optimizer.variables]
            keras_io.assign(self._model.optimizer.variables, values, "optimizer variables")
        return self._model, step

    def finish(self, result: FitResult) -> None:
        """Take the chief's result: the model passed gets the trained weights, the callbacks what they recorded.

        Raises ModelDiffers, when all that is done, if the model does not answer here as it did in its task.
        """
        self._result = result
        if self._model is not None:
            _restore(self._model, result)
        for callback, data in zip(self._callbacks, result.callbacks, strict=True):
            vars(callback).update(pickle.loads(data))
            if self._model is not None:
                callback.set_model(self._model)
        if self._model is not None:
            _ask(self._model, result)

    def check_jobs(self, jobs: Mapping[str, int]) -> None:
        """Raise InvalidInput if the model cannot be trained by so many tasks of these jobs."""
        validate(Asked.of(self._job, jobs), self._model)

    def hold(self, client: Callable[[], Any]) -> list[Held]:
        """Have the cluster compute what of the data it is to hold. ``client()`` is a Dask client of it.

        Raises InvalidInput for what it cannot hold.
        """
        return held_by((self._job.data, self._job.validation_data), client)

    @property
    def updates(self) -> dict[str, dict[str, int]]:
        """See ``FitResult.updates``. Call ``finish`` first."""
        return self._result.updates if self._result is not None else {}

    @property
    def model(self) -> Any:
        """The trained model: the one passed, or one that the function passed makes here. Call ``finish`` first."""
        if self._model is None:
            if self._result is None:
                raise RuntimeError("The run has left no result, so there is no trained model")
            model = self._source()
            _restore(model, self._result)
            self._model = model  # which the caller gets when asking again, whatever it answers
            _ask(model, self._result)
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
    """Check the arguments, which are those of ``keras.Model.fit``, and make them ready to travel.

    ``x`` and ``validation_data`` may have any form of ``client.sources``, or be a function ``data_fn(ctx)`` that
    returns a batched ``tf.data.Dataset``. ``verbose`` is ignored: the client shows the progress. ``scale_lr``
    multiplies the learning rate by the number of tasks that share a step, reached after ``warmup_epochs`` (5 if not
    given). ``check=False`` leaves out the comparison of the first step with one process's, and that of the trained
    model's answers here and there. ``checkpoint`` as in ``RunOptions``; ``resume`` is the path of a checkpoint, or of
    a directory of some. Raises InvalidInput.
    """
    del verbose
    check_count("epochs", epochs, 1)
    check_count("initial_epoch", initial_epoch, 0)
    for name, count in (
        ("batch_size", batch_size),
        ("steps_per_epoch", steps_per_epoch),
        ("validation_steps", validation_steps),
        ("validation_batch_size", validation_batch_size),
    ):
        if count is not None:
            check_count(name, count, 1)
    if not isinstance(shuffle, (bool, np.bool_)):
        raise InvalidInput(f"shuffle is True or False. Received: {shuffle!r}", field="shuffle")
    warmup_epochs = _checked_warmup(scale_lr, warmup_epochs)
    data = data_of(x, y, sample_weight, "x")
    if batch_size is not None:
        check_batch_size(data, batch_size)
    if class_weight is not None and sample_weight is not None:
        raise InvalidInput("Either class_weight or sample_weight is given. Received: both", field="class_weight")
    validation = validation_of(validation_data)
    if validation_split and validation is None:
        data, validation = split_off(data, validation_split)
    own = _callback_list(callbacks)
    chosen, design = pipeline_placement.with_placement(parse_strategy(strategy))
    job = FitJob(
        model=_packed(model),
        data=data,
        validation_data=validation,
        batch_size=batch_size,
        validation_batch_size=validation_batch_size,
        epochs=int(epochs),
        initial_epoch=int(initial_epoch),
        shuffle=bool(shuffle),
        class_weight=None if class_weight is None else {int(k): float(v) for k, v in class_weight.items()},
        steps_per_epoch=steps_per_epoch,
        validation_steps=validation_steps,
        validation_freq=validation_freq,
        callbacks=[_packed_callback(callback) for callback in own],
        strategy=chosen,
        checkpoint=_policy(checkpoint, chosen),
        resume=resume,
        seed=random.getrandbits(31),  # of the generator that keras.utils.set_random_seed seeds
        scale_lr=bool(scale_lr),
        warmup_epochs=warmup_epochs,
        check=bool(check),
        keras_config=keras_settings(),
    )
    is_here = isinstance(job.model, keras_io.PackedModel)
    validate(Asked.of(job), model if is_here else None)
    if is_here and model.built and isinstance(job.strategy, Pipeline):
        assert isinstance(job.strategy.placement, Placement)
        job.layers = checked_layers(job.strategy.placement, model)
    return PreparedFit(model, job, own, shown_parameters(model, job), design)


def _policy(checkpoint: Checkpoint | bool | None, strategy: Strategy) -> Checkpoint | None:
    """When checkpoints are written: by default after every epoch."""
    if checkpoint is False:
        return None
    policy = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint()
    if policy.every_seconds is not None and isinstance(strategy, ParameterServer) and strategy.goes_in_step:
        raise InvalidInput(
            "With parameter servers whose workers go in step checkpoints are written by every_steps and every_epochs. "
            f"Received: every_seconds={policy.every_seconds!r}",
            field="checkpoint.every_seconds",
        )
    return policy


def check_count(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InvalidInput(f"{name} is a whole number, {least} or more. Received: {value!r}", field=name)


def _checked_warmup(scale_lr: Any, warmup_epochs: Any) -> float:
    if not isinstance(scale_lr, (bool, np.bool_)):
        raise InvalidInput(f"scale_lr is True or False. Received: {scale_lr!r}", field="scale_lr")
    if warmup_epochs is None:
        return WARMUP_EPOCHS if scale_lr else 0.0
    number = isinstance(warmup_epochs, (int, float, np.number)) and not isinstance(warmup_epochs, bool)
    if not number or not 0 <= warmup_epochs < np.inf:
        raise InvalidInput(f"warmup_epochs is a number, 0 or more. Received: {warmup_epochs!r}", field="warmup_epochs")
    if not scale_lr:
        raise InvalidInput(
            f"warmup_epochs needs scale_lr=True: it is the way to the scaled learning rate. Received: "
            f"warmup_epochs={warmup_epochs!r}, scale_lr=False",
            field="warmup_epochs",
        )
    return float(warmup_epochs)


# -- the model -----------------------------------------------------------------------------------------------------


def _packed(model: Any) -> keras_io.PackedModel | Callable[[], Any]:
    if callable(model) and not hasattr(model, "compile_from_config"):
        return model  # type: ignore[no-any-return]
    return keras_io.pack(model)


def _restore(model: Any, result: FitResult) -> None:
    if not model.built:
        keras_io.build(model, result.batch)
    give_own(model, result.more)
    keras_io.assign(model.weights, result.weights, "weights")
    if model.optimizer is not None:
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        keras_io.assign(model.optimizer.variables, result.optimizer, "optimizer variables")
    give_more(model, result.more)
    history = _keras().callbacks.History()
    history.history, history.epoch = result.history, result.epoch
    model.history = history


def _ask(model: Any, result: FitResult) -> None:
    """Raise ModelDiffers unless a trained model answers here as it did in its task."""
    if result.question is None:
        return
    found = difference(model, result.question)
    if found:
        raise ModelDiffers(
            "The trained model must answer here as it did in the task that trained it, but on the same examples "
            f"{found}. Something that it computes with has not travelled: a value that is in no variable, in no "
            "get_config() and in no plain attribute of a layer, or one that has changed here since. The model holds "
            "the trained weights all the same. Put such a value where it travels, or pass a function that returns the "
            "compiled model, which makes everything anew in the tasks"
        )


def _keras() -> Any:
    import keras

    return keras


def keras_settings() -> dict[str, Any]:
    keras = sys.modules.get("keras")
    if keras is None:
        return {}
    return {
        "floatx": keras.config.floatx(),
        "image_data_format": keras.config.image_data_format(),
        "dtype_policy": keras.config.dtype_policy().name,
        "epsilon": keras.config.epsilon(),
    }


# -- callbacks -----------------------------------------------------------------------------------------------------


def _callback_list(callbacks: Any) -> list[Any]:
    if callbacks is None:
        return []
    found = getattr(callbacks, "callbacks", callbacks)
    found = list(found) if isinstance(found, (list, tuple)) else [found]
    for callback in found:
        if not hasattr(callback, "set_model") or not hasattr(callback, "on_epoch_end"):
            raise InvalidInput(
                f"callbacks are keras.callbacks.Callback. Received: {callback!r:.200}", field="callbacks"
            )
        names = {f"{base.__module__}.{base.__name__}" for base in type(callback).__mro__}
        if "keras.src.callbacks.tensorboard.TensorBoard" in names and importlib.util.find_spec("tensorboard") is None:
            raise Unavailable(
                "keras.callbacks.TensorBoard needs TensorBoard, which is not installed: pip install tensorboard. "
                "Without it, the plots of the run show the same values"
            )
    return [callback for callback in found if type(callback).__name__ != "ProgbarLogger"]  # the client shows progress


def _packed_callback(callback: Any) -> PackedCallback:
    try:
        sent = copy.copy(callback)
        vars(sent).pop("_model", None)  # from an earlier fit; the task has its own
        sent._model = None
        data = cloudpickle.dumps(sent)
    except Exception as error:
        raise InvalidInput(
            f"A callback is pickled to run in a task: make what cannot be pickled in on_train_begin. Received: "
            f"{type(callback).__name__}, {error}",
            field="callbacks",
        ) from error
    return PackedCallback(data, everywhere=bool(getattr(callback, "run_on_all_tasks", False)))
