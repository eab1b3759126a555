"""The words that workers and ``ps`` tasks say to each other; arrays go along with them (``wire``)."""

from __future__ import annotations

from typing import Any, Union

import msgspec


class Word(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Base of all words."""


class Place(msgspec.Struct, frozen=True, array_like=True):
    """How far a worker is: so many ``steps`` of its own in all, ``within`` of them in ``epoch``, counted from 0."""

    epoch: int
    within: int = 0
    steps: int = 0


# -- what a worker says --------------------------------------------------------------------------------------------


class Join(Word, frozen=True):
    """The first word, of the task of this rank. ``shares_memory``: payloads go through files."""

    rank: int
    shares_memory: bool


class Start(Word, frozen=True):
    """The chief's, of workers that are apart: with what each of them begins."""

    seed: int
    """Of the order of the examples."""
    first_epoch: int
    """With which the training began, before its checkpoint if it goes on from one."""
    place: Place
    """Of all workers of which ``places``, by rank, does not say another."""
    places: tuple[Place, ...] = ()


class GetStart(Word, frozen=True):
    """Asks with what this process begins: for the first time, or where an earlier one was lost. It takes part from
    ``version`` on.
    """

    version: int


class Keep(Word, frozen=True):
    """The chief's moving statistics (payload, float64), for those that begin later."""


class GetKept(Word, frozen=True):
    """Asks for them."""


class Hold(Word, frozen=True):
    """Asks that no more gradients be applied until ``Release``, but for those that ``GetState`` names."""


class Release(Word, frozen=True):
    """The state has been taken: go on."""


class Build(Word, frozen=True):
    """The chief's: what the variables begin with (payload: see ``state``). ``batch``: what its model is built for."""

    batch: Any


class Push(Word, frozen=True):
    """A gradient. Payload: the dense pieces in one, then for each sparse one its row numbers, its keys if it has any
    (both int64), and its rows.
    """

    number: int
    """Counts this worker's gradients from 1, so that one that comes twice is noticed."""
    version: int
    """Of the variables that it was computed from."""
    examples: int
    absent: tuple[int, ...] = ()
    """Pieces of this server, by position, that the loss does not depend on."""
    sparse: tuple[tuple[int, int, bool], ...] = ()
    """(piece, number of rows, whether they have keys)."""
    learning_rate: float | None = None
    """What the chief's optimizer has been set to."""
    stop: bool = False
    """Whether this worker asks all to stop."""
    place: Place | None = None
    """Where it is when this has been applied, if workers are apart."""


class Fetch(Word, frozen=True):
    """Asks for the variables, of this version or a later one."""

    least: int


class Meet(Word, frozen=True):
    """A one-dimensional array (payload) to be summed over the workers."""

    dtype: str


class Leave(Word, frozen=True):
    """This worker's training has ended after ``pushed`` gradients. Payload: its moving statistics, float64."""

    pushed: int
    stop: bool
    place: Place | None = None


class GetState(Word, frozen=True):
    """Asks for variables and optimizer slots; ``final``: when all workers have left.

    ``numbers``: with each worker's gradients up to this one, by rank. ``version``: of this version or a later one.
    ``stays``: a copy is kept here for ``WritePart``, and not sent.
    """

    final: bool
    numbers: tuple[int, ...] = ()
    version: int = 0
    stays: bool = False


class SetState(Word, frozen=True):
    """The chief's values (payload) replace variables and optimizer slots."""


class Replace(Word, frozen=True):
    """What a step has assigned to these pieces, by position (payload), replaces what is held."""

    pieces: tuple[int, ...]


class CopyFile(Word, frozen=True):
    """The chief's, in a conversation on checkpoints: this server is to copy a small file."""

    source: str
    target: str


class WritePart(Word, frozen=True):
    """Asks that what was kept be written, as a TensorFlow checkpoint of this prefix.

    ``keys`` and ``slices``: of each array of the state, as ``SaveV2`` takes them; no key: it is left out.
    """

    prefix: str
    keys: tuple[str, ...]
    slices: tuple[str, ...]


# -- what a ps task says -------------------------------------------------------------------------------------------


class Values(Word, frozen=True):
    """The variables (payload), and what became of the gradient."""

    version: int
    iterations: int
    learning_rate: float
    staleness: int = 0
    """Updates between the version of the gradient and the one it was applied to."""
    late: bool = False
    """Whether it was dropped."""
    stop: bool = False
    examples: int = 0
    """Of all gradients of the update that ended the step."""


class Sum(Word, frozen=True):
    """Payload: the sum."""


class Started(Word, frozen=True):
    """With what a worker begins. ``number``: of the last gradient of its that was taken here."""

    seed: int
    first_epoch: int
    place: Place
    version: int
    number: int
    has_left: bool = False
    """Whether its training has ended already."""
    is_back: bool = False
    """Whether an earlier process of this worker was here."""


class Kept(Word, frozen=True):
    """Payload: what is kept, so many bytes of it."""

    nbytes: int


class Held(Word, frozen=True):
    """The number of each worker's last gradient, by rank."""

    numbers: tuple[int, ...]


class Counts(msgspec.Struct, frozen=True, array_like=True):
    """What became of a worker's gradients."""

    scheduled: int
    """By the worker's own count."""
    applied: int
    dropped: int
    repeated: int
    """Came twice; applied once."""

    def as_dict(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__struct_fields__}


class State(Word, frozen=True):
    """Variables and slots (payload), and how it went until now. ``moving``: leading bytes are statistics, summed."""

    updates: dict[int, Counts]
    moving: int = 0
    moving_workers: int = 0
    version: int = 0
    iterations: int = 0
    places: tuple[Place, ...] = ()
    """By rank, where workers are apart."""


class Done(Word, frozen=True):
    """As you said."""


class Refused(Word, frozen=True):
    """It cannot be done."""

    why: str


# -- between ps tasks ----------------------------------------------------------------------------------------------


class Decide(Word, frozen=True):
    """The first ``ps`` task's word on whose gradients make the update of ``version``; it is not answered."""

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
