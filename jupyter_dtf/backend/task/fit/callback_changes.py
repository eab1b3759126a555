"""Makes the other tasks and the parameter servers follow the changes that the caller's callbacks on the chief make to
plain attributes and to ``trainable``: a momentum, a weight of a loss, a slope, a regularizer's factor.

Keras reads such attributes when it traces a step, and in every step if ``run_eagerly`` is set. They are therefore
compared at the beginning and the end of training, of epochs and of validation, and before and after each batch only as
long as this can have an effect.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ....errors import InvalidInput
from ..model.changed_attributes import ChangedAttributes, Values, between, give, values_of
from ..model.model_state import ExtraState, set_trainable
from ..model.parts import Reference
from .equal_weights import Weights
from .job import PackedCallbacks


@dataclass
class Changed:
    """What callbacks have changed since the tasks last agreed."""

    attributes: dict[Reference, ChangedAttributes] = field(default_factory=dict)
    trainable: ExtraState | None = None
    """Which layers and weights are trainable; None if that has not changed."""

    def __bool__(self) -> bool:
        return bool(self.attributes) or self.trainable is not None


class CallbackChanges:
    """Records the changes of callbacks in one task. ``begin`` is called before the callbacks, ``pause`` after them.

    While a model is trained in a graph, it changes no attributes itself after its first step, so that ``begin`` need
    not look at them again.
    """

    def __init__(self, model: Any, weights: Weights, packed: PackedCallbacks) -> None:
        self._model = model
        self._weights = weights
        self._records = bool(packed) and weights.are_shared and weights.reducer.rank == 0
        self._between_batches = packed.between_batches
        self._is_traced = False
        self._pending = Changed()
        if self._records:
            self._look()

    @property
    def may_matter_between_batches(self) -> bool:
        """Whether changes that callbacks make before or after this batch can have an effect. Equal on all tasks."""
        return self._between_batches and (self._is_eager or not self._is_traced)

    @property
    def are_any(self) -> bool:
        """Whether the other tasks need to know of changes."""
        return bool(self._pending)

    def begin(self) -> None:
        """Prepare for callbacks that run next."""
        if self._records and self._is_eager:
            self._look()

    def begin_batch(self) -> None:
        """Prepare for callbacks that run before or after a batch."""
        if self.may_matter_between_batches:
            self.begin()

    def step_done(self) -> None:
        """Record that a step has been traced, which may have changed attributes."""
        if not self._is_traced and self._records:
            self._look()
        self._is_traced = True

    def pause(self) -> None:
        """Record the changes of callbacks that have run."""
        if not self._records:
            return
        known, trainable = self._known, self._trainable
        self._look()
        self._pending.attributes |= {
            reference: self._merged(reference, changed)
            for reference, changed in between(self._model, known, self._known).items()
        }
        if trainable != self._trainable:
            self._pending.trainable = self._trainable

    def pause_batch(self) -> None:
        """Record the changes of callbacks that have run before or after a batch."""
        if self.may_matter_between_batches:
            self.pause()

    def settle(self) -> None:
        """Make the same changes on the other tasks and the servers. A collective, called only if there are any.

        Raises InvalidInput if another task lacks an object whose attribute has changed.
        """
        reducer, pending = self._weights.reducer, self._pending
        changed = reducer.all_gather(pending)[0] if reducer.size > 1 else pending
        if reducer.rank == 0:
            self._weights.attributes_to_servers(changed.attributes)
        else:
            lacking = give(self._model, changed.attributes)
            if lacking:
                raise InvalidInput(
                    "`callbacks` must change attributes only of objects that every task has, because all tasks need "
                    f"the new values, got {', '.join(lacking)}. Create these objects in the model's or layer's "
                    "__init__, or set run_on_all_tasks = True on the callback",
                    field="callbacks",
                )
            if changed.trainable is not None:
                set_trainable(self._model, changed.trainable)
        self._pending = Changed()

    @property
    def _is_eager(self) -> bool:
        return bool(self._model.run_eagerly)

    def _look(self) -> None:
        self._known: Values = values_of(self._model)
        self._trainable = ExtraState(
            trainable=[bool(weight.trainable) for weight in self._model.weights],
            trainable_layers=[bool(layer.trainable) for layer in self._model._flatten_layers()],
        )

    def _merged(self, reference: Reference, changed: ChangedAttributes) -> ChangedAttributes:
        earlier = self._pending.attributes.get(reference)
        if earlier is not None:
            changed.values = {**earlier.values, **changed.values}
        return changed
