"""A Keras optimizer's slots: the mapping from its variables to those of the model.

``optimizer.variables`` is a flat list whose order depends on the optimizer. To distribute a model's optimizer over
several ``ps`` tasks, and to reassemble it, the owner of each slot must be known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from .....errors import InvalidInput
from ...checkpoint.shards import slice_of
from ...model.attributes import plain_attributes
from ..replaced_attributes import hooked
from .layout import Piece


@dataclass(frozen=True)
class Slot:
    """Slot ``number`` of a variable or, if ``variable`` is None, of the optimizer, such as its iteration count."""

    variable: int | None
    number: int


def fresh(optimizer: Any) -> Any:
    """Return an unbuilt optimizer with the same settings."""
    rate = vars(optimizer).get("_learning_rate")
    if rate is None or isinstance(rate, keras.Variable):
        made = type(optimizer).from_config(optimizer.get_config())
    else:  # a schedule or function, which may have no configuration
        with hooked(optimizer, _learning_rate=0.0):
            config = optimizer.get_config()
        made = type(optimizer).from_config({**config, "learning_rate": rate})
    if not type(optimizer).__module__.startswith("keras."):
        plain_attributes(optimizer).set_on(made)
    return made


def build(optimizer: Any, variables: list[Any]) -> list[Slot]:
    """Build an optimizer for ``variables``, and return the slot of each of ``optimizer.variables``.

    ``Slot.variable`` is an index in ``variables``.
    """
    positions = {id(variable): position for position, variable in enumerate(variables)}
    owners: dict[int, int] = {}
    maker = getattr(optimizer, "inner_optimizer", optimizer)  # loss scaling has no slots
    add = maker.add_variable_from_reference

    def recorded(reference_variable: Any, *args: Any, **kwargs: Any) -> Any:
        slot = add(reference_variable, *args, **kwargs)
        owners[id(slot)] = positions[id(reference_variable)]
        return slot

    maker.add_variable_from_reference = recorded
    try:
        optimizer.build(variables)
    finally:
        del maker.add_variable_from_reference
    counts: dict[int | None, int] = {}
    slots = []
    for variable in optimizer.variables:
        owner = owners.get(id(variable))
        slots.append(Slot(owner, counts.get(owner, 0)))
        counts[owner] = slots[-1].number + 1
    return slots


def for_pieces(
    optimizer: Any, variables: list[Any], pieces: list[Piece], held: list[Any], servers: int
) -> tuple[Any, list[Any]]:
    """Return an optimizer for a server's ``pieces`` of ``variables``, and the optimizer's variables in the order of
    ``Plan``.

    ``held``: the variables that hold these pieces. A single server uses the model's own optimizer, as a single process
    does.
    """
    if servers == 1:
        if not optimizer.built:
            optimizer.build(variables)
        return optimizer, optimizer.variables
    own = fresh(optimizer)
    own.exclude_from_weight_decay()
    by_keras = type(own)._apply_weight_decay is not keras.optimizers.Optimizer._apply_weight_decay  # such as Muon's
    for variable, piece in zip(held, pieces, strict=True):
        # Exclusion by name depends on the whole variable's name, which Keras takes from its TensorFlow variable.
        whole = variables[piece.variable]
        asked = whole if by_keras else whole.value
        own._exclude_from_weight_decay_cache[own._var_key(variable)] = optimizer._use_weight_decay(asked)
    found = build(own, held)
    order = sorted(range(len(found)), key=lambda i: _order(found[i]))
    return own, [own.variables[i] for i in order]


def _order(slot: Slot) -> tuple[bool, int, int]:
    return slot.variable is None, slot.variable or 0, slot.number


class Plan:
    """The layout of a whole model's state, its weights and optimizer, over the servers. Used by the chief.

    A server's state consists of the bytes of its pieces, then the bytes of their slots, ordered by piece and slot
    number, then the bytes of the optimizer's own variables.
    """

    def __init__(self, pieces: list[Piece], servers: int, weights: list[Any], optimizer: Any) -> None:
        self._pieces = pieces
        self._weights = weights
        self._optimizer = optimizer
        self._slots = build(fresh(optimizer), weights) if servers > 1 else []
        self._servers = servers

    def taken_apart(self) -> list[list[npt.NDArray[Any]]]:
        """Return the arrays of each server's state, from the current values."""
        return [
            [np.ascontiguousarray(variable.numpy()[rows]) for variable, rows in self._variables(server)]
            for server in range(self._servers)
        ]

    def put_together(self, states: list[list[npt.NDArray[Any]]]) -> None:
        """Assign weights and optimizer variables from the states of all servers."""
        whole = {id(v): np.array(v.numpy()) for v in [*self._weights, *self._optimizer.variables]}
        for server, state in reversed(list(enumerate(states))):  # keeps the first server's values
            for (variable, rows), array in zip(self._variables(server), state, strict=True):
                whole[id(variable)][rows] = array.reshape(whole[id(variable)][rows].shape)
        for variable in [*self._weights, *self._optimizer.variables]:
            variable.assign(whole[id(variable)])

    def shapes(self) -> list[list[tuple[Any, int]]]:
        """Return the (dtype, size) of each array of each server's state."""
        return [[(array.dtype, array.size) for array in arrays] for arrays in self.taken_apart()]

    def parts(self) -> list[list[tuple[Any, str]]]:
        """Return the variable and its slice (``slice_of``; empty: the whole variable) for each array of each server's
        state.

        The optimizer's own variables exist on several servers: for these, the variable is None for all servers but the
        first.
        """
        named: set[int] = set()
        found = []
        for server in range(self._servers):
            parts: list[tuple[Any, str]] = []
            for variable, rows in self._variables(server):
                if rows is not ...:
                    parts.append((variable, slice_of(variable.shape, 0, rows.start, rows.stop - rows.start)))
                else:
                    parts.append((None if id(variable) in named else variable, ""))
                    named.add(id(variable))
            found.append(parts)
        return found

    def _variables(self, server: int) -> list[tuple[Any, Any]]:
        """Return the Keras variable and its rows for each array of a server's state."""
        if self._servers == 1:
            return [(variable, ...) for variable in [*self._weights, *self._optimizer.variables]]
        mine = [piece for piece in self._pieces if piece.server == server]
        parts = [(self._weights[piece.variable], _rows(piece)) for piece in mine]
        held = list(zip(self._slots, self._optimizer.variables, strict=True))
        for piece in mine:
            parts += [(v, _rows(piece)) for slot, v in held if slot.variable == piece.variable]
        return parts + [(v, ...) for slot, v in held if slot.variable is None]


def _rows(piece: Piece) -> Any:
    return ... if piece.is_whole else slice(piece.first, piece.first + piece.rows)


_ELEMENTWISE = ("SGD", "RMSprop", "Adam", "AdamW", "Adamax", "Adagrad", "Adadelta", "Nadam", "Ftrl", "Lion")
_BY_VARIABLE = ("Lamb", "Muon", "ScheduleFreeAdamW")


def _is_one_of(optimizer: Any, kinds: tuple[str, ...]) -> bool:
    return type(optimizer) in {getattr(keras.optimizers, kind, None) for kind in kinds}


def is_elementwise(optimizer: Any) -> bool:
    """Return whether each element's update depends only on its own gradient and slots, so variables can be split."""
    return _is_one_of(optimizer, _ELEMENTWISE) and optimizer.clipnorm is None and optimizer.global_clipnorm is None


# A class may override these methods, because none of them handles more than one variable.
_OF_ONE_VARIABLE = {"build", "update_step", "get_config", "from_config"}


def refuse_undivided(optimizer: Any, variables: list[Any]) -> None:
    """Raise InvalidInput unless it is certain that each variable's update depends only on its own gradient and slots.

    Only then can several servers each hold some of the variables. ``optimizer`` must be built for ``variables``.
    """
    why = _why_undivided(optimizer, variables)
    if why:
        raise InvalidInput(
            "`strategy`: with several ps tasks, an optimizer must update each variable using only its own gradient and "
            f"slots, got {type(optimizer).__name__}, a class {why}. Use one ps task",
            field="strategy",
        )


def _why_undivided(optimizer: Any, variables: list[Any]) -> str:
    if _is_one_of(optimizer, _ELEMENTWISE + _BY_VARIABLE):
        return ""
    kind, base = type(optimizer), keras.optimizers.Optimizer
    own = {name for each in kind.__mro__ if not issubclass(base, each) for name in vars(each)}
    own = {name for name in own - _OF_ONE_VARIABLE if hasattr(base, name)}
    more = sorted(name for name in own if not name.startswith(("__", "_api_")))
    if more:
        return f"that overrides {', '.join(more)}"
    try:
        made = fresh(optimizer)
        found = build(made, variables)
    except Exception as error:
        return f"that cannot be rebuilt from its configuration ({error})"
    lone = [v.name for slot, v in zip(found, made.variables, strict=True) if slot.variable is None]
    if set(lone) - {"iteration", "learning_rate"} or len(set(lone)) < len(lone):
        return f"with variables that are not slots ({', '.join(dict.fromkeys(lone))})"
    return ""
