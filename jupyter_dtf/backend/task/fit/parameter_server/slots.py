"""A Keras optimizer's slots: which of its variables belongs to which variable of the model.

``optimizer.variables`` is a flat list whose order is each optimizer's own. To lay a model's optimizer out over several
``ps`` tasks, and to put it together again, one has to know whose slot each of them is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from .....errors import InvalidInput
from ...attributes import plain_attributes
from ..hooks import hooked
from .layout import Piece


@dataclass(frozen=True)
class Slot:
    """Slot ``number`` of a variable; ``variable`` None: a variable of the optimizer itself, as its iteration count."""

    variable: int | None
    number: int


def fresh(optimizer: Any) -> Any:
    """An optimizer of the same settings that is not built."""
    rate = vars(optimizer).get("_learning_rate")
    if rate is None or isinstance(rate, keras.Variable):
        made = type(optimizer).from_config(optimizer.get_config())
    else:  # a schedule or function, which need have no configuration
        with hooked(optimizer, _learning_rate=0.0):
            config = optimizer.get_config()
        made = type(optimizer).from_config({**config, "learning_rate": rate})
    if not type(optimizer).__module__.startswith("keras."):
        plain_attributes(optimizer).set_on(made)
    return made


def build(optimizer: Any, variables: list[Any]) -> list[Slot]:
    """Build an optimizer for variables; what each of ``optimizer.variables`` is, by position in ``variables``."""
    positions = {id(variable): position for position, variable in enumerate(variables)}
    owners: dict[int, int] = {}
    add = optimizer.add_variable_from_reference

    def recorded(reference_variable: Any, *args: Any, **kwargs: Any) -> Any:
        slot = add(reference_variable, *args, **kwargs)
        owners[id(slot)] = positions[id(reference_variable)]
        return slot

    optimizer.add_variable_from_reference = recorded
    try:
        optimizer.build(variables)
    finally:
        del optimizer.add_variable_from_reference
    counts: dict[int | None, int] = {}
    slots = []
    for variable in optimizer.variables:
        owner = owners.get(id(variable))
        slots.append(Slot(owner, counts.get(owner, 0)))
        counts[owner] = slots[-1].number + 1
    return slots


class Plan:
    """How the state of a whole model, weights and optimizer, is laid out over the servers, seen from the chief.

    A server's state is the bytes of its pieces, then those of their slots by piece and number, then those of the
    optimizer's own variables.
    """

    def __init__(self, pieces: list[Piece], servers: int, weights: list[Any], optimizer: Any) -> None:
        self._pieces = pieces
        self._weights = weights
        self._optimizer = optimizer
        self._slots = build(fresh(optimizer), weights)
        self._servers = servers
        for slot, variable in zip(self._slots, optimizer.variables, strict=True):
            if slot.variable is None and len(variable.shape) and self._servers > 1:
                raise InvalidInput(
                    "Over several ps tasks an optimizer's slots have the shapes of their variables. Received: "
                    f"{type(optimizer).__name__}, whose {variable.name} has the shape {tuple(variable.shape)}. "
                    "Use one ps task",
                    field="strategy",
                )

    def taken_apart(self) -> list[list[npt.NDArray[Any]]]:
        """The arrays of each server's state, from the present values."""
        return [
            [np.ascontiguousarray(variable.numpy()[rows]) for variable, rows in self._variables(server)]
            for server in range(self._servers)
        ]

    def put_together(self, states: list[list[npt.NDArray[Any]]]) -> None:
        """Assign weights and optimizer variables from the states of all servers."""
        whole = {id(v): np.array(v.numpy()) for v in [*self._weights, *self._optimizer.variables]}
        for server, state in reversed(list(enumerate(states))):  # the first one's word counts for what all have
            for (variable, rows), array in zip(self._variables(server), state, strict=True):
                whole[id(variable)][rows] = array.reshape(whole[id(variable)][rows].shape)
        for variable in [*self._weights, *self._optimizer.variables]:
            variable.assign(whole[id(variable)])

    def shapes(self) -> list[list[tuple[Any, int]]]:
        """(dtype, size) of each array of each server's state."""
        return [[(array.dtype, array.size) for array in arrays] for arrays in self.taken_apart()]

    def _variables(self, server: int) -> list[tuple[Any, Any]]:
        """(Keras variable, the rows of it) of each array of a server's state."""
        mine = [piece for piece in self._pieces if piece.server == server]
        parts = [(self._weights[piece.variable], _rows(piece)) for piece in mine]
        held = list(zip(self._slots, self._optimizer.variables, strict=True))
        for piece in mine:
            parts += [(v, _rows(piece)) for slot, v in held if slot.variable == piece.variable]
        return parts + [(v, ...) for slot, v in held if slot.variable is None]


def _rows(piece: Piece) -> Any:
    return ... if piece.is_whole else slice(piece.first, piece.first + piece.rows)


def is_elementwise(optimizer: Any) -> bool:
    """Whether the update of each number depends on its own gradient and slots alone, so that variables may be cut."""
    optimizers = keras.optimizers
    kinds = ("SGD", "RMSprop", "Adam", "AdamW", "Adamax", "Adagrad", "Adadelta", "Nadam", "Ftrl", "Lion")
    known = {getattr(optimizers, kind) for kind in kinds}
    return type(optimizer) in known and optimizer.clipnorm is None and optimizer.global_clipnorm is None
