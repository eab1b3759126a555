"""What a task calls, in words and as a mark: in a collective, all tasks have to call the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import tensorflow as tf

MARK_BYTES = 4096
DIGEST_BYTES = 16

RULE = "All tasks make the same collective calls in the same order."


class DifferentCalls(tf.errors.FailedPreconditionError, RuntimeError):
    """Tasks that met in a collective had called different ones. The message names the calls.

    It is FailedPreconditionError for programs written for Horovod, which raises that.
    """

    ag_pass_through = True  # through autograph, as it is

    def __init__(self, message: str) -> None:
        super().__init__(None, None, message)


def described(name: str, specs: Sequence[tuple[str, Iterable[Any]]], free_rows: bool = False) -> str:
    """``allreduce average of 2 tensors: float32 [4, 3], int32 []``. ``free_rows``: the first dimension may differ."""
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
    """``allreduce average 'loss' (compression=fp16)``: what a program calls, apart from what it hands over."""
    said = ", ".join(f"{key}={value}" for key, value in options.items())
    return what + (f" {name!r}" if name else "") + (f" ({said})" if said else "")


def described_tensors(name: str, tensors: Sequence[tf.Tensor], free_rows: bool = False) -> str:
    """``described`` by what is known of the shapes; what is not known is ``?``."""
    specs = [(t.dtype.name, t.shape.as_list() if t.shape.rank is not None else ["..."]) for t in tensors]
    return described(name, specs, free_rows)


def mark(text: str) -> bytes:
    """``MARK_BYTES`` that begin with a digest of the text, to compare, and go on with the text itself, to read."""
    data = text.encode()
    room = MARK_BYTES - DIGEST_BYTES
    shown = data if len(data) <= room else data[: room - 3] + b"..."
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest() + shown.ljust(room)


def same(one: Any, other: Any) -> bool:
    """Whether two marks, or views of memory that holds one, are of equal texts."""
    return bool(one[:DIGEST_BYTES] == other[:DIGEST_BYTES])


def text_of(mark: bytes) -> str:
    """What the mark says."""
    return mark[DIGEST_BYTES:].rstrip().decode(errors="replace")


def differ(texts: Mapping[str, str]) -> DifferentCalls:
    """The error that names the calls by task, of each call those tasks that made it."""
    tasks: dict[str, list[str]] = {}
    for task, text in texts.items():
        tasks.setdefault(text, []).append(task)
    said = ", ".join(f"{text} on {' and '.join(made_by)}" for text, made_by in tasks.items())
    return DifferentCalls(f"{RULE} Received: {said}")
