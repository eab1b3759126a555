"""``dtf.ensemble``: several models, each on a device of its own, that predict together."""

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
    """A model that passes its input to every member, each on its own device, and combines their outputs."""

    def __init__(self, members: Sequence[Any], devices: Sequence[str], combine: Callable[[Any], Any]) -> None:
        super().__init__(name="ensemble")
        self.members = list(members)
        self.devices = tuple(devices)
        self._combine = combine
        self.supports_jit = False  # XLA compiles for one device

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Return the combined outputs. ``training`` has the same meaning as in ``keras.Model.call``."""
        outputs = []
        for member, device in zip(self.members, self.devices, strict=True):
            with tf.device(device):
                outputs.append(member(inputs, training=training))
        return keras.tree.map_structure(lambda *parts: self._combine(keras.ops.stack(parts)), *outputs)


def ensemble(
    models: Sequence[Any], devices: Sequence[str] | None = None, combine: str | Callable[[Any], Any] = "mean"
) -> Ensemble:
    """Create a Keras model that runs all of ``models`` in parallel, each on a device, and combines their outputs.

    Args:
        models: Built Keras models, which are copied to the devices, or functions, each of which creates a model on its
            device.
        devices: The devices, which are assigned to the models in turn. None: every GPU known to this process, or every
            CPU if there is no GPU. In a notebook, ``servers.connect()`` adds and returns the devices of a cluster's
            tasks.
        combine: ``"mean"``; ``"vote"``, which gives for each output the fraction of members in which it is the largest;
            or a function of the outputs, stacked with the members along the first axis.

    Returns:
        A model that supports ``predict`` and, once compiled, ``evaluate``.

    Raises:
        InvalidInput: If an argument is not valid.
    """
    if not models:
        raise InvalidInput("`models` must have at least one model, got none", field="models")
    if not callable(combine) and combine not in COMBINATIONS:
        raise InvalidInput(
            f"`combine` must be {', '.join(COMBINATIONS)} or a function of the stacked outputs, got {combine!r}",
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
    """Return a model with its variables on the device: a copy of ``model``, or the result of the function ``model``."""
    with tf.device(device):
        if not isinstance(model, keras.Model):
            made = model() if callable(model) else None
            if not isinstance(made, keras.Model):
                raise InvalidInput(
                    f"`models` must be Keras models or functions that return one, got {model!r:.200}",
                    field="models",
                )
            return made
        if not model.built:
            raise InvalidInput(
                f"`models` must be built before they are copied, got {model.name!r}, which is not built: call it once",
                field="models",
            )
        copy = keras.models.clone_model(model)
        if not copy.built:
            copy.build(model._build_shapes_dict)
        copy.set_weights(model.get_weights())
        return copy


def _found(name: str, known: Sequence[str]) -> str:
    """Return the full name of the first device that matches ``name``, which may be partial."""
    try:
        wanted = tf.DeviceSpec.from_string(name)
    except ValueError as error:
        raise InvalidInput(f"`devices` must be names of devices, got {name!r}: {error}", field="devices") from None
    for candidate in known:
        there = tf.DeviceSpec.from_string(candidate)
        fields = ("job", "replica", "task", "device_type", "device_index")
        if all(getattr(wanted, field) in (None, getattr(there, field)) for field in fields):
            return candidate
    raise InvalidInput(f"`devices` must be among {', '.join(known)}, got {name!r}", field="devices")
