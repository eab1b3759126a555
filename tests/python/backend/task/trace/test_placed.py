from __future__ import annotations

from jupyter_dtf.backend.task.trace.placed import displaced

from .graphs import Graph, Node, int32

T0, T1 = "/job:worker/task:0", "/job:worker/task:1"
AT0, AT1 = (f"/job:worker/replica:0/task:{task}/device:CPU:0" for task in (0, 1))


def client(*nodes: Node) -> Graph:
    return Graph(list(nodes))


def what(graph: Graph, *parts: Graph, **more: object) -> dict[str, tuple[str, str]]:
    return {one.op: (one.what, one.into) for one in displaced(graph, parts, **more)}  # type: ignore[arg-type]


def test_what_ran_where_it_was_placed_is_not_named() -> None:
    graph = client(Node("x", "Placeholder"), Node("a", "MatMul", ("x", "x"), T0), Node("b", "MatMul", ("a", "a"), T1))
    ran = Graph([Node("a", "_MklMatMul", device=AT0)]), Graph([Node("b", "MatMul", device=AT1)])
    assert what(graph, *ran) == {}


def test_elsewhere() -> None:
    graph = client(Node("a", "MatMul", device="/job:worker/task:1/gpu:0"))
    (found,) = displaced(graph, [Graph([Node("a", "MatMul", device=AT1)])])
    assert found.text == (
        "a (MatMul), placed on /job:worker/task:1/device:GPU:0, ran on /job:worker/task:1/device:CPU:0"
    )


def test_folded_into_a_constant_downstream_or_itself() -> None:
    graph = client(
        Node("c", "Const", device=T0),
        Node("power", "MatMul", ("c", "c"), T0),
        Node("again", "MatMul", ("power", "c:0"), T0),
        Node("sum", "AddV2", ("again", "x"), T1),
        Node("x", "Placeholder"),
    )
    ran = Graph([Node("again", "Const", device=AT0), Node("sum", "AddV2", device=AT1)])
    assert what(graph, ran) == {"power": ("folded", "again"), "again": ("folded", "again")}
    assert "constants alone" in displaced(graph, [ran])[0].text


def test_fused_into_the_next_that_ran() -> None:
    graph = client(
        Node("x", "Placeholder"),
        Node("product", "MatMul", ("x", "x"), T0),
        Node("bias", "BiasAdd", ("product",), T0),
        Node("relu", "Relu", ("bias",), T0),
    )
    ran = Graph([Node("relu", "_FusedMatMul", device=AT0)])
    assert what(graph, ran) == {
        "product": ("fused", "relu (_FusedMatMul)"),
        "bias": ("fused", "relu (_FusedMatMul)"),
    }


def test_dropped() -> None:
    graph = client(Node("a", "MatMul", device=T0), Node("b", "Relu", ("a",), T0))
    assert what(graph, Graph([Node("b", "Relu", device=AT0)])) == {"a": ("removed", "")}


def test_what_the_fetches_do_not_need_is_not_looked_at() -> None:
    graph = client(
        Node("fed", "MatMul", ("before",), T0),
        Node("before", "MatMul", (), T0),
        Node("a", "Relu", ("fed", "^control"), T0),
        Node("control", "MatMul", (), T0),
        Node("other", "MatMul", (), T1),
    )
    assert what(graph, Graph([]), fetched=["a"], fed=["fed"]).keys() == {"a", "control"}


def test_shapes_and_what_has_no_device_are_left_out() -> None:
    graph = client(
        Node("anywhere", "MatMul"), Node("shape", "Shape", device=T0), Node("size", "Prod", device=T0, attr=int32())
    )
    assert what(graph, Graph([])) == {}


def test_a_function_that_runs_in_its_place() -> None:
    graph = client(Node("call", "PartitionedCall", device=T0), Node("lost", "PartitionedCall", device=T0))
    assert what(graph, Graph([Node("call/MatMul", "MatMul", device=AT0)])).keys() == {"lost"}


def test_local_devices_are_those_of_the_task() -> None:
    graph = client(Node("a", "MatMul", device="/device:CPU:1"))
    ran = Graph([Node("a", "MatMul", device="/job:localhost/replica:0/task:0/device:CPU:0")])
    (found,) = displaced(graph, [ran], task="/job:worker/task:3")
    assert found.placed == "/job:worker/task:3/device:CPU:1"
    assert found.ran == "/job:worker/task:3/device:CPU:0"
