"""Tests of the attribution of time to layers and phases, with made-up steps."""

from __future__ import annotations

import pytest

from jupyter_dtf.backend.task.profile.attribution import attribute, shared_out, wall_times
from jupyter_dtf.schema.graph import Layer, LayerGraph
from jupyter_dtf.schema.trace import TracedOp

DEVICE = "/job:worker/task:0/device:CPU:0"


def op(name: str, start_us: float, duration_us: float) -> TracedOp:
    return TracedOp(step=0, op=name, op_type="MatMul", device=DEVICE, start_us=start_us, duration_us=duration_us)


def test_what_runs_together_shares_the_time_and_what_comes_next_has_the_gap() -> None:
    ops = [op("a", 10, 20), op("b", 20, 30), op("c", 60, 10), op("d", 65, 0)]
    microseconds = [seconds * 1e6 for seconds in wall_times(ops)]
    assert microseconds == pytest.approx([10 + 5, 5 + 20, 10 + 10, 0])
    assert sum(microseconds) == pytest.approx(70 - 10)
    assert wall_times([]) == []


def test_names_say_layer_and_phase() -> None:
    scopes = {"dense": "dense", "encoder/dense": "encoder/dense", "odd_name": "odd name"}
    names = {
        "forward/0/dense/dense_1/MatMul": ("dense", "forward", 0),
        "forward/12/encoder/dense/Relu": ("encoder/dense", "forward", 12),
        "forward/1/odd_name/add": ("odd name", "forward", 1),
        "forward/1/add": ("", "forward", 1),
        "backward/3/gradients/forward/3/dense/dense_1/MatMul_grad/MatMul": ("dense", "backward", 3),
        "backward/3/add_4": ("", "backward", 3),
        "ArithmeticOptimizer/AddOpsRewrite_backward/3/add_4": ("", "backward", 3),
        "update/adam/Square": ("", "update", 0),
        "loss/gradients/loss/Mean_grad/truediv": ("", "rest", 0),
        "data/strided_slice": ("", "rest", 0),
    }
    for name, key in names.items():
        assert attribute([op(name, 0, 5)], scopes) == {key: pytest.approx(5e-6)}, name


def test_what_is_between_layers_is_shared_out() -> None:
    layers = [Layer(id=name, kind="Dense", gradient_bytes=size) for name, size in (("a", 100), ("b", 300))]
    step = {
        ("a", "forward", 0): 1.0,
        ("a", "forward", 1): 1.0,
        ("b", "forward", 0): 3.0,
        ("b", "forward", 1): 3.0,
        ("", "forward", 0): 2.0,
        ("a", "backward", 0): 2.0,
        ("a", "backward", 1): 2.0,
        ("", "backward", 1): 4.0,
        ("", "update", 0): 8.0,
        ("", "rest", 0): 1.0,
    }
    slow = {key: 100 * seconds for key, seconds in step.items()}  # one of three steps was disturbed
    graph = LayerGraph(model="m", layers=layers, edges=[])
    found, rest = shared_out(graph, [step, slow, step], 27.0 + 5.0, 2)
    assert found["a"] == pytest.approx([1.25, 2.5, 2.0])
    assert found["b"] == pytest.approx([3.75, 1.5, 6.0])
    assert rest == pytest.approx(1.0 + 5.0)
    twice_as_fast, rest = shared_out(graph, [step], 13.5, 2)
    assert twice_as_fast["a"] == pytest.approx([1.25 / 2, 2.5 / 2, 2.0 / 2])
    assert rest == pytest.approx(0.5)
