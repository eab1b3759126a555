"""Optimizers with special features, of Keras and of users, with which several tasks must do what one process does."""

from __future__ import annotations

from typing import Any

from .cases import Case, _data, dense
from .strategy_cases import placed_words, sentences, words


def _optimizer(kind: str, **arguments: Any) -> Any:
    import keras

    return getattr(keras.optimizers, kind)(**arguments)


def own(kind: str) -> Any:
    """Return a custom optimizer with the special feature after which it is named."""
    import keras
    from keras import ops

    class Counting(keras.optimizers.SGD):
        """An optimizer that keeps a variable that is not a slot of any weight."""

        def build(self, variables: Any) -> None:
            super().build(variables)
            self.updates = self.add_variable((), name="updates")

        def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
            self.updates.assign_add(1.0)
            super().update_step(gradient, variable, learning_rate / self.updates)

    class Normed(keras.optimizers.SGD):
        """An optimizer that uses all gradients together, in ``apply``."""

        def apply(self, grads: Any, trainable_variables: Any = None) -> None:
            norm = ops.sqrt(sum(ops.sum(ops.square(g)) for g in grads))
            super().apply([g / (norm + 0.1) for g in grads], trainable_variables)

    class Pairs(keras.optimizers.Adam):
        """An optimizer that uses all gradients together, in ``apply_gradients``."""

        def apply_gradients(self, grads_and_vars: Any) -> Any:
            pairs = list(grads_and_vars)
            norm = ops.sqrt(sum(ops.sum(ops.square(g)) for g, _ in pairs))
            return super().apply_gradients([(g / (norm + 0.1), v) for g, v in pairs])

    class Backend(keras.optimizers.SGD):
        """An optimizer that changes a variable once per update."""

        def build(self, variables: Any) -> None:
            super().build(variables)
            self.product = self.add_variable((), initializer="ones", name="product")

        def _backend_update_step(self, grads: Any, trainable_variables: Any, learning_rate: Any) -> None:
            self.product.assign(self.product * 0.9)
            super()._backend_update_step(grads, trainable_variables, learning_rate * self.product.value)

    class Forgetful(keras.optimizers.SGD):
        """An optimizer that leaves an argument out of its configuration."""

        def __init__(self, *args: Any, factor: float = 1.0, **arguments: Any) -> None:
            super().__init__(*args, **arguments)
            self.factor = factor

        def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
            super().update_step(gradient, variable, learning_rate * self.factor)

    class Simple(keras.optimizers.Optimizer):
        """An optimizer as in Keras's documentation, with slots and an update rule for a single variable."""

        def build(self, variables: Any) -> None:
            super().build(variables)
            self.momentums = [self.add_variable_from_reference(v, name="momentum") for v in variables]

        def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
            momentum = self.momentums[self._get_variable_index(variable)]
            self.assign(momentum, momentum * 0.9 - gradient * learning_rate)
            self.assign_add(variable, momentum)

    kinds = {each.__name__: each for each in (Counting, Normed, Pairs, Backend, Simple)}
    return kinds[kind](learning_rate=0.1) if kind in kinds else Forgetful(0.1, factor=3.0)


OF_KERAS = (
    "SGD", "RMSprop", "Adam", "AdamW", "Adamax", "Adagrad", "Adadelta", "Nadam", "Ftrl", "Lion", "Lamb", "Muon",
    "Adafactor", "ScheduleFreeAdamW",
)  # fmt: skip
OWN = ("Counting", "Normed", "Pairs", "Backend", "Forgetful", "Simple")
_OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "centered": ("RMSprop", {"centered": True, "momentum": 0.5}),
    "amsgrad": ("Adam", {"amsgrad": True, "clipvalue": 0.01}),
    "clipnorm": ("Adam", {"clipnorm": 0.1, "weight_decay": 0.1}),
    "averages, written back": ("Nadam", {"use_ema": True, "ema_momentum": 0.5, "ema_overwrite_frequency": 2}),
    "accumulated": ("Nadam", {"gradient_accumulation_steps": 2}),
}


def _built(model: Any) -> Any:
    model.optimizer.build(model.trainable_variables)  # some slots start as copies of the weights: see keras_io
    return model


def _one_epoch(fit: dict[str, Any]) -> dict[str, Any]:
    return {**fit, "epochs": 1}


def _of_keras(kind: str) -> Case:
    return Case(
        lambda: _built(placed_words(_optimizer(kind, learning_rate=0.05))), _one_epoch(sentences()), tolerance=5e-6
    )


def _with_options(kind: str, options: dict[str, Any]) -> Case:
    return Case(lambda: words(_optimizer(kind, learning_rate=0.05, **options)), _one_epoch(sentences()))


def _own(kind: str) -> Case:
    return Case(lambda: dense(own(kind)), _data(epochs=1), by_function=True)


OPTIMIZER_CASES: dict[str, Case] = {
    **{kind: _of_keras(kind) for kind in OF_KERAS},
    **{f"{name}, an embedding": _with_options(*options) for name, options in _OPTIONS.items()},
    **{f"own: {kind}": _own(kind) for kind in OWN},
}
