"""Tests of finding the modules whose code a callback runs for each batch."""

from __future__ import annotations

import keras

from jupyter_dtf.backend.task.fit.batch_hooks import modules_of_batch_hooks


class Ends(keras.callbacks.Callback):
    def on_train_batch_end(self, batch: int, logs: object = None) -> None: ...


class Callback(keras.callbacks.Callback):
    """A callback with the same class name as Keras's own base class."""

    def on_batch_end(self, batch: int, logs: object = None) -> None: ...


def _at_a_batch(batch: int, logs: object) -> None: ...


def test_hooks_of_classes_and_functions_are_seen_wherever_they_come_from() -> None:
    assert modules_of_batch_hooks(Ends()) == {__name__}
    assert modules_of_batch_hooks(Callback()) == {__name__}
    given = keras.callbacks.LambdaCallback(on_train_batch_begin=_at_a_batch)
    assert modules_of_batch_hooks(given) == {__name__}
    assert modules_of_batch_hooks(keras.callbacks.ModelCheckpoint("a.keras", save_freq=2)) == {
        keras.callbacks.ModelCheckpoint.__module__
    }


def test_hooks_that_do_nothing_are_left_out() -> None:
    assert not modules_of_batch_hooks(keras.callbacks.LambdaCallback(on_epoch_end=_at_a_batch))
    assert not modules_of_batch_hooks(keras.callbacks.EarlyStopping())
    assert not modules_of_batch_hooks(keras.callbacks.Callback())
