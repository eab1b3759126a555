"""The words that workers and ``ps`` tasks say to each other; arrays go along with them (``wire``)."""

from __future__ import annotations

from typing import Any, Union

import msgspec


class Word(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Base of all words."""


# -- what a worker says --------------------------------------------------------------------------------------------


class Join(Word, frozen=True):
    """The first word, of the task of this rank. ``shares_memory``: payloads go through files."""

    rank: int
    shares_memory: bool


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


class GetState(Word, frozen=True):
    """Asks for variables and optimizer slots; ``final``: when all workers have left."""

    final: bool


class SetState(Word, frozen=True):
    """The chief's values (payload) replace variables and optimizer slots."""


class Replace(Word, frozen=True):
    """What a step has assigned to these pieces, by position (payload), replaces what is held."""

    pieces: tuple[int, ...]


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
    Join, Build, Push, Fetch, Meet, Leave, GetState, SetState, Replace, Values, Sum, State, Done, Refused, Decide
]
encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(AnyWord).decode
