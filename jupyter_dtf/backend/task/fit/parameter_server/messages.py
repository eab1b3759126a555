"""The messages between workers and ``ps`` tasks; arrays are sent along with them (``wire``)."""

from __future__ import annotations

from typing import Any, Union

import msgspec


class Word(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Base class of all messages."""


class Place(msgspec.Struct, frozen=True, array_like=True):
    """A worker's position: ``steps`` steps in total, ``within`` of them in epoch ``epoch``, counted from 0."""

    epoch: int
    within: int = 0
    steps: int = 0


class ServedAttributes(msgspec.Struct, frozen=True, array_like=True):
    """New values of plain attributes of an object that servers use."""

    path: tuple[str | int, ...]
    """The names of the attributes that lead from the optimizer to the object."""
    values: dict[str, Any]
    """Numbers, strings, None, and lists of these, keyed by the attribute's name."""
    variable: int | None = None
    """If the object is the constraint of a variable, the variable's index in ``model.trainable_variables``."""


# -- messages of workers -----------------------------------------------------------------------------------------------


class Join(Word, frozen=True):
    """The first message from the worker with this rank. ``shares_memory``: whether payloads are sent through files."""

    rank: int
    shares_memory: bool


class Start(Word, frozen=True):
    """The starting positions of asynchronous workers, sent by the chief."""

    seed: int
    """The seed of the order of the examples."""
    first_epoch: int
    """The first epoch of training; if training resumes from a checkpoint, the first epoch of the original run."""
    place: Place
    """The position of each worker that has no position in ``places``, which is ordered by rank."""
    places: tuple[Place, ...] = ()


class GetStart(Word, frozen=True):
    """Requests the position at which this process starts, whether it is the worker's first or replaces a lost one.

    The process takes part in updates from ``version`` on.
    """

    version: int


class Keep(Word, frozen=True):
    """The chief's moving statistics (payload, float64), for workers that start later."""


class GetKept(Word, frozen=True):
    """Requests the kept moving statistics."""


class Hold(Word, frozen=True):
    """Requests that no gradients be applied until ``Release``, except those that ``GetState`` specifies."""


class Release(Word, frozen=True):
    """Ends ``Hold`` after the state has been fetched."""


class Build(Word, frozen=True):
    """The initial values of a server's state, sent by the chief (payload: see ``slots.Plan``).

    ``batch``: the structure of the batches that the model is built for.
    """

    batch: Any


class Push(Word, frozen=True):
    """A gradient.

    Payload: the concatenated dense pieces, then, for each sparse piece, its row numbers, its keys if any (both int64),
    and its rows.
    """

    number: int
    """The number of this gradient, counted from 1 for each worker, so that the server recognizes a repeated gradient.
    """
    version: int
    """The version of the variables that the gradient was computed from."""
    examples: int
    absent: tuple[int, ...] = ()
    """The indices, among this server's pieces, of the pieces that the loss does not depend on."""
    sparse: tuple[tuple[int, int, bool], ...] = ()
    """For each sparse piece: its index among this server's pieces, its number of rows, and whether the rows have keys.
    """
    learning_rate: float | None = None
    """The learning rate set on the chief's optimizer; None if this worker is not the chief, or if the rate follows a
    schedule.
    """
    stop: bool = False
    """Whether this worker requests that all workers stop."""
    counts: bool = False
    """Whether the step is made with gradients of zeros if no worker has examples."""
    place: Place | None = None
    """The worker's position after this gradient has been applied, if workers are asynchronous."""


class Fetch(Word, frozen=True):
    """Requests the variables in version ``least`` or later."""

    least: int


class Meet(Word, frozen=True):
    """A one-dimensional array (payload) to sum over the workers."""

    dtype: str


class Leave(Word, frozen=True):
    """This worker's training has ended after ``pushed`` gradients. Payload: its moving statistics, float64."""

    pushed: int
    stop: bool
    place: Place | None = None


class GetState(Word, frozen=True):
    """Requests variables and optimizer slots. ``final``: wait until all workers have left.

    ``numbers``: the number of each worker's last gradient to include, in rank order. ``version``: the earliest version
    to return. ``stays``: keep a copy for ``WritePart`` instead of sending the state.
    """

    final: bool
    numbers: tuple[int, ...] = ()
    version: int = 0
    stays: bool = False


class SetState(Word, frozen=True):
    """Replaces variables and optimizer slots with the chief's values (payload)."""


class Replace(Word, frozen=True):
    """Replaces the values of some pieces with the values in the payload. ``pieces``: their indices among this server's
    pieces.
    """

    pieces: tuple[int, ...]


class SetAttributes(Word, frozen=True):
    """Sets plain attributes of the optimizer and of constraints.

    ``anew``: whether the next update must use them, as in a model that runs eagerly; otherwise, updates that have been
    traced stay as they are.
    """

    changed: tuple[ServedAttributes, ...]
    anew: bool


class CopyFile(Word, frozen=True):
    """Requests that the server copy a small file; sent by the chief, on a connection for checkpoints."""

    source: str
    target: str


class WritePart(Word, frozen=True):
    """Requests that the server write its kept copy as a TensorFlow checkpoint with this prefix.

    ``keys`` and ``slices``: the key and the slice of each array of the state, in the form that ``SaveV2`` expects.
    Arrays with an empty key are not written.
    """

    prefix: str
    keys: tuple[str, ...]
    slices: tuple[str, ...]


# -- messages of ps tasks ----------------------------------------------------------------------------------------------


class Values(Word, frozen=True):
    """The answer to ``Push`` and ``Fetch``: the variables (payload) and, for ``Push``, the outcome of the gradient."""

    version: int
    iterations: int
    learning_rate: float
    staleness: int = 0
    """The number of updates between the version that the gradient was computed from and the one it was applied to."""
    late: bool = False
    """Whether the gradient was dropped because it arrived too late."""
    stop: bool = False
    examples: int = 0
    """The total number of examples of all gradients in the update that ended the step."""


class Sum(Word, frozen=True):
    """The sum of the workers' arrays (payload), the answer to ``Meet``."""


class Started(Word, frozen=True):
    """The answer to ``GetStart``: the position at which a worker starts. ``number``: the number of the worker's last
    gradient that this server has received.
    """

    seed: int
    first_epoch: int
    place: Place
    version: int
    number: int
    has_left: bool = False
    """Whether the worker's training has already ended."""
    is_back: bool = False
    """Whether an earlier process of this worker was connected."""


class Kept(Word, frozen=True):
    """The answer to ``GetKept``: the kept moving statistics (payload) and their size in bytes."""

    nbytes: int


class Held(Word, frozen=True):
    """The number of each worker's last gradient, in rank order: the answer to ``Hold`` and ``Release``."""

    numbers: tuple[int, ...]


class Counts(msgspec.Struct, frozen=True, array_like=True):
    """The numbers of a worker's gradients, by outcome."""

    scheduled: int
    """The number of all gradients, as counted by the worker."""
    applied: int
    dropped: int
    repeated: int
    """The number of gradients received twice and applied once."""

    def as_dict(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__struct_fields__}


class State(Word, frozen=True):
    """The answer to ``GetState``: variables and slots (payload), and the counts of gradients so far.

    ``moving``: the number of values at the beginning of the payload that are sums of the workers' moving statistics.
    ``moving_workers``: the number of workers in these sums.
    """

    updates: dict[int, Counts]
    moving: int = 0
    moving_workers: int = 0
    version: int = 0
    iterations: int = 0
    places: tuple[Place, ...] = ()
    """The workers' positions in rank order, if workers are asynchronous."""


class Done(Word, frozen=True):
    """The request has been carried out."""


class Refused(Word, frozen=True):
    """The request cannot be carried out."""

    why: str


# -- messages between ps tasks -----------------------------------------------------------------------------------------


class Decide(Word, frozen=True):
    """The first ``ps`` task's decision on which workers' gradients form the update of ``version``. It has no answer."""

    version: int
    workers: tuple[int, ...]


AnyWord = Union[
    Join,
    Start,
    GetStart,
    Keep,
    GetKept,
    Hold,
    Release,
    Build,
    Push,
    Fetch,
    Meet,
    Leave,
    GetState,
    SetState,
    Replace,
    SetAttributes,
    CopyFile,
    WritePart,
    Values,
    Sum,
    Started,
    Kept,
    Held,
    State,
    Done,
    Refused,
    Decide,
]
encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(AnyWord).decode
