"""``dtf.ensemble``: several models, each on a device of its own, asked together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from ...errors import InvalidInput


def _mean(outputs: Any) -> Any:
    return keras.ops.mean(outputs, axis=0)


def _vote(outputs: Any) -> Any:
    return keras.ops.mean(keras.ops.one_hot(keras.ops.argmax(outputs, axis=-1), outputs.shape[-1]), axis=0)


COMBINATIONS: dict[str, Callable[[Any], Any]] = {"mean": _mean, "vote": _vote}


class Ensemble(keras.Model):
    """A model that gives every member the same input, each on its device, and combines their outputs."""

    def __init__(self, members: Sequence[Any], devices: Sequence[str], combine: Callable[[Any], Any]) -> None:
        super().__init__(name="ensemble")
        self.members = list(members)
        self.devices = tuple(devices)
        self._combine = combine
        self.supports_jit = False  # XLA compiles for one device

    def call(self, inputs: Any, training: bool = False) -> Any:
        """The combined outputs; ``training`` as in ``keras.Model.call``."""
        outputs = []
        for member, device in zip(self.members, self.devices, strict=True):
            with tf.device(device):
                outputs.append(member(inputs, training=training))
        return keras.tree.map_structure(lambda *parts: self._combine(keras.ops.stack(parts)), *outputs)


def ensemble(
    models: Sequence[Any], devices: Sequence[str] | None = None, combine: str | Callable[[Any], Any] = "mean"
) -> Ensemble:
    """One Keras model that asks all of ``models`` at the same time, each on a device, and combines what they say.

    ``models`` are built Keras models, of which the devices get copies, or functions that make one there. ``devices``
    are taken in turn; None takes every GPU that this process knows, or where there is none every CPU. In a notebook
    ``servers.connect()`` makes known, and returns, those of a cluster's tasks. ``combine`` gets the outputs as one
    tensor, the members along its first axis: "mean"; "vote", the share of the members whose largest output it is; or a
    function. The result has ``predict``, and once compiled ``evaluate``. Raises InvalidInput.
    """
    if not models:
        raise InvalidInput("An ensemble has at least one model. Received: none", field="models")
    if not callable(combine) and combine not in COMBINATIONS:
        raise InvalidInput(
            f"combine is {', '.join(COMBINATIONS)} or a function of the stacked outputs. Received: {combine!r}",
            field="combine",
        )
    known = [d.name for kind in ("GPU", "CPU") for d in tf.config.list_logical_devices(kind)]
    if devices:
        chosen = [_found(name, known) for name in devices]
    else:
        chosen = [name for name in known if "GPU" in name] or known
    placed = [chosen[index % len(chosen)] for index in range(len(models))]
    members = [_placed(model, device) for model, device in zip(models, placed, strict=True)]
    return Ensemble(members, placed, combine if callable(combine) else COMBINATIONS[combine])


def _placed(model: Any, device: str) -> Any:
    """The model with its variables on the device: a copy, or what a function makes."""
    with tf.device(device):
        if not isinstance(model, keras.Model):
            made = model() if callable(model) else None
            if not isinstance(made, keras.Model):
                raise InvalidInput(
                    f"An ensemble is of Keras models, or functions that return one. Received: {model!r:.200}",
                    field="models",
                )
            return made
        if not model.built:
            raise InvalidInput(
                f"A model is built before it is copied: call it once. Received: {model.name!r}, not built",
                field="models",
            )
        copy = keras.models.clone_model(model)
        if not copy.built:
            copy.build(model._build_shapes_dict)
        copy.set_weights(model.get_weights())
        return copy


def _found(name: str, known: Sequence[str]) -> str:
    """The full name of a device; what ``name`` leaves out is that of the first that fits."""
    try:
        wanted = tf.DeviceSpec.from_string(name)
    except ValueError as error:
        raise InvalidInput(f"{error}. Received: {name!r}", field="devices") from None
    for candidate in known:
        there = tf.DeviceSpec.from_string(candidate)
        fields = ("job", "replica", "task", "device_type", "device_index")
        if all(getattr(wanted, field) in (None, getattr(there, field)) for field in fields):
            return candidate
    raise InvalidInput(f"A device is one of {', '.join(known)}. Received: {name!r}", field="devices")
