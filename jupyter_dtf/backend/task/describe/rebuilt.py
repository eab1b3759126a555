"""Rebuilds Keras models from a file's configuration, with only Keras's own classes and without the weights."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras

from ....errors import InvalidInput
from .known_classes import check_classes
from .model_files import Configuration


def rebuilt(configuration: Configuration, what: str) -> Any:
    """Return the model without compiling it. Raises InvalidInput, or whatever Keras raises for an invalid
    configuration.
    """
    check_classes(configuration.model, what)
    config = _without_compiling(copy.deepcopy(configuration.model))
    with _as_keras_reads():
        model = _legacy_model(config) if configuration.is_legacy else keras.saving.deserialize_keras_object(config)
    if not isinstance(model, keras.Model):
        raise InvalidInput(f"{what} must be a Keras model, got a {type(model).__name__}", field="path")
    return model


def give_optimizer(model: Any, configuration: Configuration, what: str) -> None:
    """Compile a rebuilt model with only its saved optimizer, if it has one. Raises the same errors as ``rebuilt``."""
    compiled = configuration.compiled or {}
    config = compiled.get("optimizer_config" if configuration.is_legacy else "optimizer")
    if config is None:
        return
    check_classes(config, what)
    model.compile(optimizer=keras.optimizers.get(copy.deepcopy(config)))


def compile_as_saved(model: Any, configuration: Configuration, what: str) -> None:
    """Compile a rebuilt model with its saved compile arguments, if any. Raises the same errors as ``rebuilt``."""
    if configuration.compiled is None:
        return
    check_classes(configuration.compiled, what)
    config = copy.deepcopy(configuration.compiled)
    if configuration.is_legacy:
        # Keras 3.15: there is no public way to compile with the arguments recorded in a legacy .h5 file.
        from keras.src.legacy.saving import saving_utils

        model.compile(**saving_utils.compile_args_from_training_config(config))
    else:
        model.compile_from_config(config)


def _without_compiling(config: Any) -> Any:
    """Remove compile arguments, including those of nested models."""
    waiting = [config]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            if "class_name" in item:
                item.pop("compile_config", None)
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
    return config


@contextmanager
def _as_keras_reads() -> Iterator[None]:
    # Keras 3.15: sharing objects within a configuration is not public.
    from keras.src.saving.serialization_lib import ObjectSharingScope, SafeModeScope

    with ObjectSharingScope(), SafeModeScope(True):
        yield


def _legacy_model(config: dict[str, Any]) -> Any:
    # Keras 3.15: the legacy .h5 reader needs this scope, which is not public.
    from keras.src.legacy.saving import saving_options, saving_utils

    with saving_options.keras_option_scope(use_legacy_config=True):
        return saving_utils.model_from_config(config)
