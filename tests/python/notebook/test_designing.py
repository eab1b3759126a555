"""Tests of what the designer reads from a kernel."""

from __future__ import annotations

from typing import Any

import keras
import pytest

from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.notebook import designing

from .kernel import Notebook


def build() -> keras.Model:
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, name="a"), keras.layers.Dense(2, name="b")])


def build_of(units: int) -> keras.Model:
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(units)])


@pytest.fixture
def namespace(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(build, "__module__", "__main__")
    monkeypatch.setattr(build_of, "__module__", "__main__")
    return {"model": build(), "_old": build(), "x": 1, "build": build, "build_of": build_of, "keras": keras}


def test_models_come_first_and_then_functions_that_need_no_arguments(namespace: dict[str, Any]) -> None:
    assert designing.models(namespace).data == [
        {"name": "model", "kind": "model", "type": "Sequential", "parameters": 23},
        {"name": "build", "kind": "function", "type": "", "parameters": 0},
    ]


def test_a_model_and_what_a_function_returns_are_described_alike(namespace: dict[str, Any]) -> None:
    model, made = designing.describe("model", namespace).data, designing.describe("build", namespace, call=True).data
    assert [layer["id"] for layer in model["layers"]] == ["a", "b"] == [layer["id"] for layer in made["layers"]]
    assert model["edges"] == [{"source": "a", "target": "b", "bytes": 12}]


def test_a_function_is_not_called_because_a_design_names_it(namespace: dict[str, Any]) -> None:
    called = []
    namespace["remove"] = lambda: called.append(1)
    for ask in (designing.describe, lambda name, there: designing.calibrate(name, "any", 64, 8, there)):
        with pytest.raises(
            InvalidInput, match="must be chosen in the list of models before it is called, got 'remove'"
        ):
            ask("remove", namespace)
    assert not called


def test_what_is_not_there_or_no_model_is_said(namespace: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="must be a variable of the kernel, got 'gone'"):
        designing.describe("gone", namespace)
    with pytest.raises(InvalidInput, match="`model` must be a keras.Model, got 1"):
        designing.describe("x", namespace)


def test_a_kernel_answers_expressions_with_json() -> None:
    ask = "__import__('jupyter_dtf.notebook.designing', fromlist=['models']).models()"
    with Notebook() as notebook:
        notebook.run("def build(): ...\ndef build_of(units): ...")
        answer = notebook.value(
            f"get_ipython().user_expressions({{'dtf': {ask!r}}})['dtf']['data']['application/json']"
        )
    assert answer == "[{'name': 'build', 'kind': 'function', 'type': '', 'parameters': 0}]"
