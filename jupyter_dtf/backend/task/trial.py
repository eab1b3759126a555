"""The program of a trial: the user's function, in which calls to ``fit`` report their metrics automatically."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ...errors import InvalidInput
from ...schema.search_trial import as_value, objective_values
from .context import Context
from .trial_model import keep_model


def run_trial(job: tuple[Callable[..., Any], dict[str, Any], Sequence[str], bool], ctx: Context) -> Any:
    """Run ``train_fn(params, ctx)``, the program of a search's trial.

    ``job`` is ``(train_fn, params, objectives, keeps_model)``; ``keeps_model`` is whether to keep the trained model.
    """
    train_fn, params, objectives, keeps_model = job
    fits = report_fits(ctx)
    returned = _plain(train_fn(params, ctx))
    if ctx.is_chief and ctx.is_to_go_on and not ctx.went_on:  # the chief may send the restored state to the others
        raise InvalidInput(
            "In population-based training, train_fn must continue from the result of ctx.restore(), but did not call it"
        )
    if ctx.is_chief and (values := objective_values(returned, objectives)):
        ctx.trial_valued({metric: as_value(value) for metric, value in values.items()})
    if keeps_model and ctx.is_chief and fits.model is not None:
        keep_model(ctx, fits.model)
    return returned


def run_mapped(job: tuple[Callable[..., Any], dict[str, Any]], ctx: Context) -> Any:
    """Run ``map_fun(**arguments)``, the program of a launch's trial."""
    map_fun, arguments = job
    report_fits(ctx)
    return _plain(map_fun(**arguments))


def _plain(value: Any) -> Any:
    """Convert NumPy numbers and scalar tensors to Python numbers, because the client may not have TensorFlow."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_plain, value)) if type(value) in (list, tuple) else value
    if hasattr(value, "numpy") and getattr(value, "shape", None) == ():
        value = value.numpy()
    return value.item() if hasattr(value, "item") and getattr(value, "shape", None) == () else value


class Fits:
    """The result of a program's calls to ``fit``."""

    model: Any = None
    """The model trained last."""


def report_fits(ctx: Context) -> Fits:
    """Make ``fit`` report its logs after each epoch, and stop training when the run should stop.

    The reported step is the number of epochs completed in this process, including those of earlier calls to ``fit``.
    Once the program reports anything itself, ``fit`` stops reporting. Does nothing in a process that has not imported
    Keras.
    """
    fits = Fits()
    if "keras" not in sys.modules:
        return fits
    # Keras 3.15: every model's fit is this class's method; there is no public hook around it.
    from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

    fit = TensorFlowTrainer.fit
    reports = _make_callback(ctx)

    @functools.wraps(fit)
    def reporting_fit(self: Any, *args: Any, callbacks: Any = None, **kwargs: Any) -> Any:
        fits.model = self
        if len(args) > 5:  # the sixth positional argument of `fit` is `callbacks`
            return fit(self, *args[:5], _with(args[5], reports), *args[6:], **kwargs)
        return fit(self, *args, callbacks=_with(callbacks, reports), **kwargs)

    TensorFlowTrainer.fit = reporting_fit
    return fits


def _with(callbacks: Any, reports: Any) -> Any:
    """Return a call's callbacks with ``reports`` added last, so that it runs after any callback that reports."""
    import keras

    if isinstance(callbacks, keras.callbacks.CallbackList):
        callbacks.append(reports)
        return callbacks
    return [*(callbacks if isinstance(callbacks, (list, tuple)) else [callbacks] if callbacks else []), reports]


def _make_callback(ctx: Context) -> Any:
    import keras

    class ReportsEpochs(keras.callbacks.Callback):
        def __init__(self) -> None:
            super().__init__()
            self.epochs = 0
            self.reported = 0

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if ctx.should_stop:
                self.model.stop_training = True

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if ctx.reported == self.reported and logs:
                ctx.report(self.epochs, **{name: float(value) for name, value in logs.items()})
                self.reported += 1
            self.epochs += 1

    return ReportsEpochs()
