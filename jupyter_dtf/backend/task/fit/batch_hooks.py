"""Finds out which hooks a callback overrides, and whose code it runs for each batch."""

from __future__ import annotations

from typing import Any

BATCH_HOOKS = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")


def overrides(callback: Any, hook: str) -> bool:
    """Return whether a callback has code for a hook. A ``keras.callbacks.LambdaCallback`` has it on the instance."""
    import keras  # the client uses this module, and imports Keras only if a program does

    return hook in vars(callback) or getattr(type(callback), hook, None) is not getattr(keras.callbacks.Callback, hook)


def modules_of_batch_hooks(callback: Any) -> set[str]:
    """Return the names of the modules whose code a callback runs for each batch; empty if the callback overrides no
    hook.

    Hooks are looked up on the instance, because the functions passed to a ``keras.callbacks.LambdaCallback`` are its
    attributes.
    """
    bases = [base for base in type(callback).__mro__ if base.__name__ == "Callback"]
    keras_own = {base.__module__ for base in bases if base.__module__.startswith("keras.")}
    hooks = (getattr(callback, name, None) for name in BATCH_HOOKS)
    return {str(getattr(hook, "__module__", "")) for hook in hooks if hook is not None} - keras_own
