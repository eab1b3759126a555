"""The messages between workers and ``ps`` tasks; arrays are sent along with them (``wire``)."""

from __future__ import annotations

from typing import Any, Union

import msgspec


class Word(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Base of all messages."""


class Place(msgspec.Struct, frozen=True, array_like=True):
    """A worker's position: ``steps`` of its own in total, ``within`` of them in ``epoch``, counted from 0."""

    epoch: int
    within: int = 0
    steps: int = 0


# -- messages of workers -----------------------------------------------------------------------------------------------


class Join(Word, frozen=True):
    """The first message, from the task of this rank. ``shares_memory``: whether payloads go through files."""

    rank: int
    shares_memory: bool


class Start(Word, frozen=True):
    """From the chief of asynchronous workers: where each of them starts."""

    seed: int
    """The seed of the order of the examples."""
    first_epoch: int
    """The first epoch of the training, before its checkpoint if it resumes from one."""
    place: Place
    """The position of all workers without their own in ``places``, by rank."""
    places: tuple[Place, ...] = ()


class GetStart(Word, frozen=True):
    """Asks where this process starts, whether it is the first or replaces a lost one.

    It takes part from ``version`` on.
    """

    version: int


class Keep(Word, frozen=True):
    """The chief's moving statistics (payload, float64), for workers that start later."""


class GetKept(Word, frozen=True):
    """Asks for the kept moving statistics."""


class Hold(Word, frozen=True):
    """Asks not to apply gradients until ``Release``, except those named by ``GetState``."""


class Release(Word, frozen=True):
    """The state has been taken: continue."""


class Build(Word, frozen=True):
    """The variables' initial values from the chief (payload: see ``state``). ``batch``: what to build its model for."""

    batch: Any


class Push(Word, frozen=True):
    """A gradient.

    Payload: the dense pieces concatenated, then for each sparse one its row numbers, its keys if any (both int64), and
    its rows.
    """

    number: int
    """Counts this worker's gradients from 1, so that a repeated one is noticed."""
    version: int
    """Of the variables that it was computed from."""
    examples: int
    absent: tuple[int, ...] = ()
    """Positions of this server's pieces that the loss does not depend on."""
    sparse: tuple[tuple[int, int, bool], ...] = ()
    """(piece, number of rows, whether they have keys)."""
    learning_rate: float | None = None
    """The learning rate set on the chief's optimizer."""
    stop: bool = False
    """Whether this worker requests that all stop."""
    place: Place | None = None
    """The worker's position after this has been applied, if workers are asynchronous."""


class Fetch(Word, frozen=True):
    """Asks for the variables, of this version or a later one."""

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
    """Asks for variables and optimizer slots; ``final``: after all workers have left.

    ``numbers``: include each worker's gradients up to this number, by rank. ``version``: of this version or a later
    one. ``stays``: keep a copy for ``WritePart`` instead of sending.
    """

    final: bool
    numbers: tuple[int, ...] = ()
    version: int = 0
    stays: bool = False


class SetState(Word, frozen=True):
    """Replaces variables and optimizer slots with the chief's values (payload)."""


class Replace(Word, frozen=True):
    """Replaces pieces, by position, with what a step has assigned to them (payload)."""

    pieces: tuple[int, ...]


class CopyFile(Word, frozen=True):
    """From the chief, on a connection for checkpoints: asks the server to copy a small file."""

    source: str
    target: str


class WritePart(Word, frozen=True):
    """Asks the server to write its kept copy as a TensorFlow checkpoint of this prefix.

    ``keys`` and ``slices``: for each array of the state, as ``SaveV2`` takes them; without a key it is left out.
    """

    prefix: str
    keys: tuple[str, ...]
    slices: tuple[str, ...]


# -- messages of ps tasks ----------------------------------------------------------------------------------------------


class Values(Word, frozen=True):
    """The variables (payload), and what became of the gradient."""

    version: int
    iterations: int
    learning_rate: float
    staleness: int = 0
    """The number of updates between the gradient's version and the one it was applied to."""
    late: bool = False
    """Whether it was dropped."""
    stop: bool = False
    examples: int = 0
    """The number of examples of all gradients in the update that ended the step."""


class Sum(Word, frozen=True):
    """The sum (payload)."""


class Started(Word, frozen=True):
    """Where a worker starts. ``number``: of its last gradient that was received here."""

    seed: int
    first_epoch: int
    place: Place
    version: int
    number: int
    has_left: bool = False
    """Whether its training has already ended."""
    is_back: bool = False
    """Whether an earlier process of this worker was connected."""


class Kept(Word, frozen=True):
    """The kept array (payload) and its size in bytes."""

    nbytes: int


class Held(Word, frozen=True):
    """The number of each worker's last gradient, by rank."""

    numbers: tuple[int, ...]


class Counts(msgspec.Struct, frozen=True, array_like=True):
    """What became of a worker's gradients."""

    scheduled: int
    """Counted by the worker."""
    applied: int
    dropped: int
    repeated: int
    """Received twice, applied once."""

    def as_dict(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__struct_fields__}


class State(Word, frozen=True):
    """Variables and slots (payload), and counts so far. ``moving``: the number of leading summed moving statistics."""

    updates: dict[int, Counts]
    moving: int = 0
    moving_workers: int = 0
    version: int = 0
    iterations: int = 0
    places: tuple[Place, ...] = ()
    """By rank, if workers are asynchronous."""


class Done(Word, frozen=True):
    """The request has been carried out."""


class Refused(Word, frozen=True):
    """The request cannot be carried out."""

    why: str


# -- messages between ps tasks -----------------------------------------------------------------------------------------


class Decide(Word, frozen=True):
    """The first ``ps`` task's decision whose gradients make the update of ``version``. It is not answered."""

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
