"""Tests of synchronous parameter servers in cases where the result depends on more than the mean gradient."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.strategy import ParameterServer

from .....tiers import cut
from ...gang import FakeContext, run_gang
from ..cases import digits
from ..comparison import Recorded, alone, compare, distributed
from ..optimizer_cases import OPTIMIZER_CASES, own
from ..outside_cases import CALLBACK_CASES, OUTSIDE_CASES, decaying
from ..strategy_cases import STRATEGY_CASES
from .programs import fit, sgd

CASES = {**OPTIMIZER_CASES, **STRATEGY_CASES, **OUTSIDE_CASES, **CALLBACK_CASES}
ON_ONE = (
    *("a weight that rises before each batch", "weights that are set after each batch"),
    *("RMSprop", "Adagrad", "Adadelta", "Nadam", "Muon", "Lamb", "Adafactor", "clipnorm, an embedding"),
    *("own: Counting", "own: Normed", "own: Pairs", "own: Backend", "own: Forgetful"),
    *("positions, none in the last share", "positions, words tied to the output", "positions, run eagerly"),
    *("spectral norm", "decay, run eagerly", "averages swapped for validation", "averages, then the best weights"),
)
OVER_TWO = (  # with every variable split that may be
    *("RMSprop", "Nadam", "Muon", "Lamb", "ScheduleFreeAdamW", "own: Simple", "positions and words in one lookup"),
    *("spectral norm, several steps at once", "decay", "averages, then the best weights"),
    *("weights that are set after each batch", "metrics that are reset after a batch"),
)
GROUP = 12


@pytest.fixture(scope="module")
def expected() -> Callable[[str], Recorded]:
    names = list(dict.fromkeys(ON_ONE + OVER_TWO))

    @cache
    def group(number: int) -> dict[str, Recorded]:
        chosen = {name: CASES[name] for name in names[number * GROUP :][:GROUP]}
        return alone(chosen)

    return lambda name: group(names.index(name) // GROUP)[name]


def _trained(names: tuple[str, ...], servers: int) -> Callable[[str], Any]:
    @cache
    def group(number: int) -> dict[str, Any]:
        chosen = {name: CASES[name] for name in names[number * GROUP :][:GROUP]}
        program = distributed(chosen, strategy=ParameterServer(sync=True, split_bytes=1))
        results: dict[str, Any] = run_gang(2 + servers, program, servers=servers)[0]
        return results

    return lambda name: group(names.index(name) // GROUP)[name]


@pytest.fixture(scope="module")
def on_one() -> Callable[[str], Any]:
    return _trained(ON_ONE, 1)


@pytest.fixture(scope="module")
def over_two() -> Callable[[str], Any]:
    return _trained(OVER_TWO, 2)


@pytest.mark.parametrize("name", cut(ON_ONE, keep=ON_ONE[:GROUP]))
def test_one_server_does_what_one_process_does(name: str, expected: Any, on_one: Any) -> None:
    compare(CASES[name], expected(name), on_one(name))


@pytest.mark.extended
@pytest.mark.parametrize("name", OVER_TWO)
def test_two_servers_do_the_same(name: str, expected: Any, over_two: Any) -> None:
    compare(CASES[name], expected(name), over_two(name))


def test_what_several_servers_cannot_hold_is_refused() -> None:
    def program(ctx: FakeContext) -> list[str]:
        import keras

        from jupyter_dtf.backend.task.fit.parameter_server.slots import refuse_undivided

        variables = [keras.Variable(np.ones((3, 2)), name="kernel"), keras.Variable(np.zeros(2), name="bias")]
        messages = []
        for optimizer in (keras.optimizers.Adafactor(), *map(own, ("Counting", "Normed", "Pairs"))):
            optimizer.build(variables)
            with pytest.raises(InvalidInput) as raised:
                refuse_undivided(optimizer, variables)
            messages.append(str(raised.value).partition("got ")[2])
        for optimizer in (keras.optimizers.Lamb(), keras.optimizers.Muon(), own("Simple"), own("Forgetful")):
            optimizer.build(variables)
            refuse_undivided(optimizer, variables)
        return messages

    adafactor, counting, normed, pairs = run_gang(1, program)[0]
    assert adafactor.startswith("Adafactor, a class with variables that are not slots")
    assert counting.startswith(
        "Counting, a class with variables that are not slots (iteration, learning_rate, updates)"
    )
    assert normed.startswith("Normed, a class that overrides apply.")
    assert pairs.startswith("Pairs, a class that overrides apply_gradients.")


def test_a_checkpoint_within_an_epoch_has_the_servers_slots() -> None:
    def program(ctx: FakeContext) -> Any:
        import keras

        class Save(keras.callbacks.Callback):
            def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
                if batch == 2:
                    self.model.optimizer.save_own_variables(saved)

        def model() -> Any:
            made = sgd()
            made.compile(keras.optimizers.SGD(0.1, momentum=0.9), "sparse_categorical_crossentropy")
            return made

        saved: dict[str, Any] = {}
        data: dict[str, Any] = {"batch_size": 4, "shuffle": False, "callbacks": [Save()]}
        fit(ctx, "saved", model, *digits(24), **data, strategy=ParameterServer(sync=True))
        if ctx.rank:
            return None
        here, saved = saved, {}
        model().fit(*digits(24), **data, verbose=0)
        return here, saved

    (here, alone), *_ = run_gang(3, program, servers=1)
    assert set(here) == set(alone)
    for name, value in alone.items():
        np.testing.assert_allclose(here[name], value, atol=1e-6)


def test_a_late_task_may_not_assign_weights() -> None:
    def program(ctx: FakeContext) -> str:
        if ctx.job_name == "ps":
            with pytest.raises(RuntimeError, match="was lost"):
                fit(ctx, "late", decaying, *digits(24), strategy=ParameterServer(sync=True, backup_workers=1))
            return ""
        with pytest.raises(InvalidInput) as raised:
            fit(ctx, "late", decaying, *digits(24), strategy=ParameterServer(sync=True, backup_workers=1))
        return str(raised.value)

    first, second, _ = run_gang(3, program, servers=1)
    assert "With backup_workers, only the optimizer may change weights within a step" in first
    assert "With backup_workers, only the optimizer may change weights within a step" in second
