"""Predicts with a SavedModel for the rows of partitions, in Dask's workers."""

from __future__ import annotations

import functools
import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ...errors import InvalidInput
from . import rows


@dataclass(frozen=True)
class Asked:
    """A prediction request. ``inputs`` maps columns to tensors, ``outputs`` maps tensors to columns, both in order."""

    export_dir: str
    tags: str | None
    signature: str
    inputs: dict[str, str]
    outputs: dict[str, str]
    batch_size: int


_loading = threading.Lock()
_FILES = ("saved_model.pb", "variables/variables.index")


def _version(export_dir: str) -> list[Any]:
    """Return a value that changes with every export to the same directory."""
    import tensorflow as tf

    found: list[Any] = []
    for name in _FILES:
        path = f"{export_dir.rstrip('/')}/{name}"
        try:
            of_file = os.stat(path)
            found.append((of_file.st_mtime_ns, of_file.st_size, of_file.st_ino))
        except OSError:  # only TensorFlow can access the directory, or the model has no variables
            with suppress(tf.errors.OpError):
                of_place = tf.io.gfile.stat(path)
                found.append((of_place.mtime_nsec, of_place.length))
    return found


@functools.lru_cache(maxsize=2)
def _loaded(export_dir: str, tags: str | None, signature: str, version: tuple[Any, ...]) -> tuple[Any, Any]:
    import tensorflow as tf

    # GPUs are for the tasks. TensorFlow would hold the memory that it allocates until the end of this Dask worker.
    tf.config.set_visible_devices([], "GPU")
    model = tf.saved_model.load(export_dir, tags=tags.split(",") if tags else None)
    if signature not in model.signatures:
        raise InvalidInput(f"`signature_def_key` must be one of {list(model.signatures)}, got {signature!r}")
    return model, model.signatures[signature]  # the function has only weak references to the model's variables


def predict_part(part: Any, asked: Asked) -> Any:
    """Return the outputs for a pandas dataframe of inputs. Raises InvalidInput for tensors that the model lacks."""
    import tensorflow as tf

    with _loading:
        _, signature = _loaded(asked.export_dir, asked.tags, asked.signature, tuple(_version(asked.export_dir)))
    specs = signature.structured_input_signature[1]
    for field, names, there in (
        ("input_mapping", asked.inputs.values(), specs),
        ("output_mapping", asked.outputs, signature.structured_outputs),
    ):
        if unknown := [name for name in names if name not in there]:
            raise InvalidInput(f"`{field}` must name tensors of {', '.join(there)}, got {unknown}", field=field)
    answers: list[tuple[Any, ...]] = []
    for begin in range(0, len(part), asked.batch_size):
        batch = part.iloc[begin : begin + asked.batch_size]
        given = {}
        for column, name in asked.inputs.items():
            spec = specs[name]
            values = tf.constant(batch[column].tolist(), spec.dtype)
            is_flat = spec.shape.rank and spec.shape[1:].is_fully_defined()  # each row may be a flat list
            given[name] = tf.reshape(values, [len(batch), *spec.shape[1:]]) if is_flat else values
        found = signature(**given)
        outputs = [found[name].numpy() for name in asked.outputs]
        sizes = [len(output) for output in outputs]
        if any(size != len(batch) for size in sizes):
            raise InvalidInput(f"A model must return a value for each row, got {sizes} for {len(batch)} rows")
        answers += zip(*(output.tolist() for output in outputs), strict=True)
    frame = rows.as_frame(answers, list(asked.outputs.values()))
    return frame.astype(object)
