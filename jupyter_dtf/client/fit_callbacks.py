"""Checks the callbacks of a training run and packs them for sending."""

from __future__ import annotations

import importlib.util
import warnings
from typing import Any

from ..backend.task.fit.batch_hooks import modules_of_batch_hooks
from ..backend.task.fit.callback_pickles import Pickles
from ..backend.task.fit.job import PackedCallbacks
from ..errors import InvalidInput, Unavailable
from .outside_changes import changed_outside


def callback_list(callbacks: Any) -> list[Any]:
    if callbacks is None:
        return []
    found = getattr(callbacks, "callbacks", callbacks)
    found = list(found) if isinstance(found, (list, tuple)) else [found]
    for callback in found:
        if isinstance(callback, type) or not hasattr(callback, "set_model") or not hasattr(callback, "on_epoch_end"):
            what = f"the class {callback.__name__}" if isinstance(callback, type) else f"{callback!r:.200}"
            raise InvalidInput(f"`callbacks` must be keras.callbacks.Callback objects, got {what}", field="callbacks")
        names = {f"{base.__module__}.{base.__name__}" for base in type(callback).__mro__}
        if "keras.src.callbacks.tensorboard.TensorBoard" in names and importlib.util.find_spec("tensorboard") is None:
            raise Unavailable(
                "keras.callbacks.TensorBoard needs TensorBoard, which is not installed: pip install tensorboard. "
                "The plots of the run show the same values without it"
            )
    return [
        callback for callback in found if type(callback).__name__ != "ProgbarLogger"
    ]  # the client shows the progress


def packed_callbacks(callbacks: list[Any], model: Any) -> PackedCallbacks:
    if not callbacks:
        return PackedCallbacks()
    pickles = Pickles(lambda: model if hasattr(model, "compile_from_config") else None)
    everywhere = [bool(getattr(callback, "run_on_all_tasks", False)) for callback in callbacks]
    others = {number: callback for number, callback in enumerate(callbacks) if everywhere[number]}
    try:
        chiefs = pickles.dumps(dict(enumerate(callbacks)))
    except InvalidInput:
        raise
    except Exception as error:
        raise InvalidInput(
            f"`callbacks` must be picklable, got {_unpicklable(callbacks, pickles)}: {error}. Create unpicklable "
            "objects in on_train_begin, which runs in the task",
            field="callbacks",
        ) from error
    acts = any(map(_acts_between_batches, callbacks))
    reads = acts or any(map(_reads_batch_logs, callbacks))
    return PackedCallbacks(everywhere, chiefs, pickles.dumps(others) if others else b"", acts, reads)


def warn_of_changes_outside(callbacks: list[Any]) -> None:
    """Warn of callbacks that change variables outside of themselves, because these changes stay in the task."""
    for callback in callbacks:
        if not (names := changed_outside(callback)):
            continue
        warnings.warn(
            f"{type(callback).__name__} changes {', '.join(names)}, but runs in a task: the change stays there. "
            "Keep the value in an attribute of the callback instead, which is copied back after training",
            stacklevel=5,
        )


def warn_of_copies(callbacks: list[Any], model: Any, x: Any) -> None:
    """Warn of callbacks that hold the data ``x``, of which the tasks have copies. The callbacks must be picklable."""
    if not callbacks:
        return
    pickles = Pickles(lambda: model if hasattr(model, "compile_from_config") else None)
    names = [type(callback).__name__ for callback in callbacks if pickles.holds(callback, x)]
    if names:
        kind = type(x).__name__
        warnings.warn(
            f"The {kind} that {', '.join(names)} holds will be a copy: changes that a callback makes to it do not "
            f"change the training data. Make them in the on_epoch_begin or on_epoch_end of the {kind} itself",
            stacklevel=5,
        )


def _acts_between_batches(callback: Any) -> bool:
    """Return whether a callback has code that is neither Keras's nor this package's and is called for each batch."""
    return not all(module.startswith(("keras.", "jupyter_dtf.")) for module in modules_of_batch_hooks(callback))


def _reads_batch_logs(callback: Any) -> bool:
    """Return whether a callback of Keras uses the logs of each batch: ``TerminateOnNaN``, a ``ModelCheckpoint`` that
    saves, or a ``TensorBoard`` that writes, every few batches.
    """
    return type(callback).__name__ == "TerminateOnNaN" or any(
        getattr(callback, name, "epoch") != "epoch" for name in ("save_freq", "update_freq")
    )


def _unpicklable(callbacks: list[Any], pickles: Pickles) -> str:
    """Return the class name of the first callback that cannot be pickled; if each one can, all class names."""
    for callback in callbacks:
        try:
            pickles.dumps(callback)
        except Exception:
            return type(callback).__name__
    return ", ".join(type(callback).__name__ for callback in callbacks)
