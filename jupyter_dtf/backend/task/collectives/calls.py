"""Descriptions of collective calls, as strings and as marks. Tasks use marks to check that they make the same call."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import tensorflow as tf

MARK_BYTES = 4096
DIGEST_BYTES = 16

RULE = "All tasks must make the same collective calls in the same order"


class DifferentCalls(tf.errors.FailedPreconditionError, RuntimeError):
    """Tasks called different collectives. The message lists the calls.

    It is a FailedPreconditionError because Horovod raises that error.
    """

    ag_pass_through = True  # makes autograph pass it on unchanged

    def __init__(self, message: str) -> None:
        super().__init__(None, None, message)


def described(name: str, specs: Sequence[tuple[str, Iterable[Any]]], free_rows: bool = False) -> str:
    """Return a description of a call, such as ``allreduce average of 2 tensors: float32 [4, 3], int32 []``.

    ``free_rows`` is whether the size of a first dimension may differ between tasks.
    """
    said = []
    for dtype, shape in specs:
        lengths = ["?" if length is None else str(length) for length in shape]
        if free_rows and lengths:
            lengths[0] = "*"
        said.append(f"{dtype} [{', '.join(lengths)}]")
    count = f"{len(said)} tensors: " if len(said) != 1 else ""
    runs = [(spec, len(list(run))) for spec, run in groupby(said)]
    return f"{name} of {count}{', '.join(f'{n} x {spec}' if n > 2 else ', '.join([spec] * n) for spec, n in runs)}"


def call_name(what: str, name: str | None = None, **options: Any) -> str:
    """Return a description of a call without its tensors, such as ``allreduce average 'loss' (compression=fp16)``."""
    said = ", ".join(f"{key}={value}" for key, value in options.items())
    return what + (f" {name!r}" if name else "") + (f" ({said})" if said else "")


def described_tensors(name: str, tensors: Sequence[tf.Tensor], free_rows: bool = False) -> str:
    """Return what ``described`` returns for the static shapes of tensors. Unknown sizes are shown as ``?``."""
    specs = [(t.dtype.name, t.shape.as_list() if t.shape.rank is not None else ["..."]) for t in tensors]
    return described(name, specs, free_rows)


def mark(text: str) -> bytes:
    """Return ``MARK_BYTES`` bytes: a digest of the string, for comparison, followed by the string itself."""
    data = text.encode()
    room = MARK_BYTES - DIGEST_BYTES
    shown = data if len(data) <= room else data[: room - 3] + b"..."
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest() + shown.ljust(room)


def same(one: Any, other: Any) -> bool:
    """Return whether two marks, or views of memory that contains marks, have equal descriptions."""
    return bool(one[:DIGEST_BYTES] == other[:DIGEST_BYTES])


def text_of(mark: bytes) -> str:
    """Return the description that a mark contains."""
    return mark[DIGEST_BYTES:].rstrip().decode(errors="replace")


def differ(texts: Mapping[str, str]) -> DifferentCalls:
    """Return an error that lists the calls with the tasks that made them."""
    tasks: dict[str, list[str]] = {}
    for task, text in texts.items():
        tasks.setdefault(text, []).append(task)
    said = ", ".join(f"{text} on {' and '.join(made_by)}" for text, made_by in tasks.items())
    return DifferentCalls(f"{RULE}, got {said}")
