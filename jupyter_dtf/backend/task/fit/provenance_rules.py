"""Contains rules that derive facts about an operation's outputs from facts about its inputs (see ``provenance``).

Only operations that typically compute the indices of a lookup have their own rules. The outputs of any other operation
are taken to depend on the batch if one of its inputs does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

Flags = tuple[bool, ...]


@dataclass(frozen=True)
class Fact:
    """Flags for a tensor: whether its values, each of its extents and, for a vector, each of its elements depend on the
    batch.
    """

    values: bool
    extents: Flags | None = None
    """The flag of each extent; None: unknown."""
    elements: Flags | None = None
    """The flag of each element of a vector; None: every element has the flag ``values``."""

    @property
    def depends(self) -> bool:
        return self.values or self.extents is None or any(self.extents)

    def element(self, index: int) -> bool:
        return self.values if self.elements is None else self.elements[index]


def outcomes(op: Any, inputs: Sequence[Fact]) -> list[Fact]:
    """Return the facts about each of an operation's outputs."""
    rule = _RULES.get(op.type)
    found = None if rule is None else rule(op, inputs)
    if found is None:
        found = [_any_operation(op, inputs, output) for output in op.outputs]
    return found if isinstance(found, list) else [found] * len(op.outputs)


def constant(tensor: Any) -> Any:
    """Return the tensor's value as an array, or None if it is not known before the graph runs."""
    return tf.get_static_value(tensor)


def none_of(tensor: Any) -> Flags | None:
    """Return the extent flags of a tensor that has no extents that depend on the batch; None if its rank is unknown."""
    return None if tensor.shape.rank is None else (False,) * tensor.shape.rank


# -- rules: (operation, facts about its inputs) -> facts about its outputs, or None if unknown ------------------------

Found = Fact | list[Fact] | None


def _any_operation(op: Any, inputs: Sequence[Fact], output: Any) -> Fact:
    values = any(fact.values for fact in inputs)
    rank = output.shape.rank
    dependent = [fact for fact in inputs if fact.extents is None or any(fact.extents)]
    if not dependent:
        return Fact(values, none_of(output))
    if rank is None or any(fact.extents is None or len(fact.extents) != rank for fact in dependent):
        return Fact(values)
    return Fact(values, _either(fact.extents for fact in dependent))


def _either(flags: Any) -> Flags:
    return tuple(any(each) for each in zip(*flags, strict=True))


def _independent(op: Any, inputs: Sequence[Fact]) -> Found:
    return [Fact(False, none_of(output)) for output in op.outputs]


def _drawn(op: Any, inputs: Sequence[Fact]) -> Found:
    return Fact(True)


def _same(op: Any, inputs: Sequence[Fact]) -> Found:
    return inputs[0]


def _by_element(op: Any, inputs: Sequence[Fact]) -> Found:
    """Return the fact about the output of an elementwise operation that broadcasts its inputs."""
    values = any(fact.values for fact in inputs)
    rank = op.outputs[0].shape.rank
    if rank is None or any(fact.extents is None for fact in inputs):
        return Fact(values)
    extents = _either((*((False,) * (rank - len(f.extents or ()))), *(f.extents or ())) for f in inputs)
    elements = None
    if rank == 1 and op.outputs[0].shape[0] is not None:
        count = op.outputs[0].shape[0]
        sizes = {len(f.elements) for f in inputs if f.elements is not None}
        if sizes <= {count}:
            elements = tuple(any(f.element(i) for f in inputs) for i in range(count))
    return Fact(values, extents, elements)


def _shape(op: Any, inputs: Sequence[Fact]) -> Found:
    return [Fact(f.extents is None or any(f.extents), (False,), f.extents) for f in inputs]


def _size(op: Any, inputs: Sequence[Fact]) -> Found:
    return Fact(inputs[0].extents is None or any(inputs[0].extents), ())


def _like(op: Any, inputs: Sequence[Fact]) -> Found:
    return Fact(False, inputs[0].extents)


def _range(op: Any, inputs: Sequence[Fact]) -> Found:
    values = any(fact.values for fact in inputs)
    return Fact(values, (values,))


def _vector(fact: Fact, count: int) -> Flags:
    return tuple(fact.element(i) for i in range(count))


def _fill(op: Any, inputs: Sequence[Fact]) -> Found:
    rank = op.outputs[0].shape.rank
    return Fact(inputs[1].values, None if rank is None else _vector(inputs[0], rank))


def _broadcast_to(op: Any, inputs: Sequence[Fact]) -> Found:
    rank = op.outputs[0].shape.rank
    extents = inputs[0].extents
    if rank is None or extents is None:
        return None
    aligned = (*((False,) * (rank - len(extents))), *extents)
    return Fact(inputs[0].values, _either([_vector(inputs[1], rank), aligned]))


def _tile(op: Any, inputs: Sequence[Fact]) -> Found:
    extents = inputs[0].extents
    if extents is None:
        return None
    return Fact(inputs[0].values, _either([extents, _vector(inputs[1], len(extents))]))


def _reshape(op: Any, inputs: Sequence[Fact]) -> Found:
    rank = op.outputs[0].shape.rank
    if rank is None or inputs[0].extents is None:
        return None
    given = _vector(inputs[1], rank)
    # An extent of -1 is computed from the others: it depends on the batch if an extent of the input does, unless
    # another given extent depends on it.
    left = any(inputs[0].extents) and not any(given)
    extents = tuple(flag or left for flag in given)
    elements = (inputs[0].values,) if rank == 1 and not inputs[0].extents else inputs[0].elements
    return Fact(inputs[0].values, extents, elements)


def _expand_dims(op: Any, inputs: Sequence[Fact]) -> Found:
    extents, axis = inputs[0].extents, constant(op.inputs[1])
    if extents is None or axis is None:
        return None
    place = int(axis) % (len(extents) + 1)
    return Fact(inputs[0].values, (*extents[:place], False, *extents[place:]), None if extents else (inputs[0].values,))


def _squeeze(op: Any, inputs: Sequence[Fact]) -> Found:
    extents, axes = inputs[0].extents, list(op.get_attr("squeeze_dims"))
    if extents is None or not axes:
        return None
    gone = {axis % len(extents) for axis in axes}
    return Fact(inputs[0].values, tuple(flag for i, flag in enumerate(extents) if i not in gone))


def _transpose(op: Any, inputs: Sequence[Fact]) -> Found:
    extents, order = inputs[0].extents, constant(op.inputs[1])
    if extents is None or order is None:
        return None
    return Fact(inputs[0].values, tuple(extents[i] for i in order))


def _pack(op: Any, inputs: Sequence[Fact]) -> Found:
    values = any(fact.values for fact in inputs)
    if any(fact.extents is None for fact in inputs):
        return Fact(values)
    extents = _either(fact.extents for fact in inputs)
    place = op.get_attr("axis") % (len(extents) + 1)
    elements = None if extents else tuple(fact.values for fact in inputs)
    return Fact(values, (*extents[:place], False, *extents[place:]), elements)


def _unpack(op: Any, inputs: Sequence[Fact]) -> Found:
    (fact,), count = inputs, len(op.outputs)
    if fact.extents is None:
        return None
    place = op.get_attr("axis") % len(fact.extents)
    extents = (*fact.extents[:place], *fact.extents[place + 1 :])
    return [Fact(fact.values if extents else fact.element(i), extents) for i in range(count)]


def _split(op: Any, inputs: Sequence[Fact]) -> Found:
    fact, count = inputs[1], len(op.outputs)
    if fact.elements is None:
        return None
    each = len(fact.elements) // count
    parts = [fact.elements[i * each : (i + 1) * each] for i in range(count)]
    return [Fact(any(part), (False,), part) for part in parts]


def _concat(op: Any, inputs: Sequence[Fact]) -> Found:
    facts, axis = inputs[:-1], constant(op.inputs[-1])
    values = any(fact.values for fact in facts)
    if axis is None or any(fact.extents is None for fact in facts):
        return Fact(values)
    extents = _either(fact.extents for fact in facts)
    shapes = [tensor.shape for tensor in op.inputs[:-1]]
    sizes = [int(shape[0]) for shape in shapes if shape.rank == 1 and shape[0] is not None]
    elements = None
    if len(sizes) == len(facts):
        elements = tuple(flag for fact, size in zip(facts, sizes, strict=True) for flag in _vector(fact, size))
    return Fact(values, extents, elements)


def _gather(op: Any, inputs: Sequence[Fact]) -> Found:
    table, rows = inputs[0], inputs[1]
    axis = constant(op.inputs[2]) if op.type == "GatherV2" else 0
    chosen = constant(op.inputs[1])
    if axis is None or op.get_attr("batch_dims") or rows.extents is None:
        return None
    if table.elements is not None and chosen is not None and np.ndim(chosen) == 0:
        return Fact(table.elements[int(chosen)], ())
    if op.type == "ResourceGather":
        extents: Flags = (False,) * ((op.outputs[0].shape.rank or 0) - len(rows.extents))
        return Fact(rows.values, (*rows.extents, *extents))
    if table.extents is None:
        return None
    place = int(axis) % len(table.extents)
    values = table.values or rows.values
    return Fact(values, (*table.extents[:place], *rows.extents, *table.extents[place + 1 :]))


def _strided_slice(op: Any, inputs: Sequence[Fact]) -> Found:
    fact, bounds = inputs[0], [constant(tensor) for tensor in op.inputs[1:]]
    if fact.extents is None:
        return None
    values = any(each.values for each in inputs)
    begin_mask, end_mask, ellipsis, new, shrink = (
        op.get_attr(f"{name}_mask") for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    )
    if fact.elements is not None and all(b is not None and len(b) == 1 for b in bounds) and not (ellipsis or new):
        (begin,), (end,), (stride,) = bounds
        if shrink:
            return Fact(fact.elements[begin], ())
        chosen = fact.elements[slice(None if begin_mask else begin, None if end_mask else end, stride)]
        return Fact(any(chosen), (False,), chosen)
    count = op.inputs[1].shape[0]
    if count is None:
        return None
    extents: list[bool] = []
    place = 0
    written = sum(not (new >> i & 1) and not (ellipsis >> i & 1) for i in range(count))
    for i in range(count):
        if ellipsis >> i & 1:
            skipped = len(fact.extents) - written
            extents += fact.extents[place : place + skipped]
            place += skipped
        elif new >> i & 1:
            extents.append(False)
        else:
            if not shrink >> i & 1:
                extents.append(fact.extents[place] or any(each.values for each in inputs[1:]))
            place += 1
    return Fact(values, (*extents, *fact.extents[place:]))


def _reduction(op: Any, inputs: Sequence[Fact]) -> Found:
    fact, axes = inputs[0], constant(op.inputs[1])
    if fact.extents is None or axes is None:
        return None
    gone = {int(axis) % max(len(fact.extents), 1) for axis in np.ravel(axes)}
    values = fact.values or any(fact.extents[axis] for axis in gone)
    if op.type not in ("ArgMax", "ArgMin") and op.get_attr("keep_dims"):
        return Fact(values, tuple(flag and i not in gone for i, flag in enumerate(fact.extents)))
    return Fact(values, tuple(flag for i, flag in enumerate(fact.extents) if i not in gone))


def _along(op: Any, inputs: Sequence[Fact]) -> Found:
    return Fact(inputs[0].values, inputs[0].extents)


def _matmul(op: Any, inputs: Sequence[Fact]) -> Found:
    values = any(fact.values for fact in inputs)
    first, second = inputs[0].extents, inputs[1].extents
    if first is None or second is None:
        return Fact(values)
    rank = max(len(first), len(second))
    first, second = ((False,) * (rank - len(each)) + each for each in (first, second))
    turned = [
        op.get_attr(name) for name in (("transpose_a", "transpose_b") if op.type == "MatMul" else ("adj_x", "adj_y"))
    ]
    rows = first[-1] if turned[0] else first[-2]
    columns = second[-2] if turned[1] else second[-1]
    return Fact(values, (*_either([first[:-2], second[:-2]]), rows, columns))


def _einsum(op: Any, inputs: Sequence[Fact]) -> Found:
    equation = op.get_attr("equation").decode()
    values = any(fact.values for fact in inputs)
    if "." in equation or any(fact.extents is None for fact in inputs):
        return Fact(values)
    operands, result = equation.split("->")
    flags: dict[str, bool] = {}
    for labels, fact in zip(operands.split(","), inputs, strict=True):
        for label, flag in zip(labels, fact.extents or (), strict=True):
            flags[label] = flags.get(label, False) or flag
    return Fact(values, tuple(flags[label] for label in result))


def _rules() -> dict[str, Callable[[Any, Sequence[Fact]], Found]]:
    groups: list[tuple[Callable[[Any, Sequence[Fact]], Found], str]] = [
        (_independent, "Const ReadVariableOp VarHandleOp Rank"),
        (_drawn, "PyFunc EagerPyFunc PyFuncStateless IteratorGetNext"),
        (
            _drawn,
            "RandomUniform RandomStandardNormal RandomUniformInt TruncatedNormal RandomShuffle Multinomial "
            "StatelessRandomUniform StatelessRandomUniformInt StatelessRandomNormal StatelessRandomUniformV2 "
            "StatelessRandomUniformIntV2 StatelessRandomNormalV2 StatelessTruncatedNormalV2 StatelessShuffle "
            "StatelessMultinomial",
        ),
        (_same, "Identity Cast StopGradient PreventGradient EnsureShape CheckNumerics Snapshot"),
        (
            _by_element,
            "Add AddV2 Sub Mul Div RealDiv FloorDiv TruncateDiv FloorMod Mod Maximum Minimum Pow Less LessEqual "
            "Greater GreaterEqual Equal NotEqual LogicalAnd LogicalOr Select SelectV2 BitwiseAnd SquaredDifference "
            "ClipByValue",
        ),
        (_shape, "Shape ShapeN"),
        (_size, "Size"),
        (_like, "ZerosLike OnesLike"),
        (_range, "Range"),
        (_fill, "Fill"),
        (_broadcast_to, "BroadcastTo"),
        (_tile, "Tile"),
        (_reshape, "Reshape"),
        (_expand_dims, "ExpandDims"),
        (_squeeze, "Squeeze"),
        (_transpose, "Transpose"),
        (_pack, "Pack"),
        (_unpack, "Unpack"),
        (_split, "Split"),
        (_concat, "ConcatV2"),
        (_gather, "GatherV2 ResourceGather"),
        (_strided_slice, "StridedSlice"),
        (_reduction, "Sum Mean Prod Max Min Any All ArgMax ArgMin"),
        (_along, "Cumsum Cumprod BiasAdd ReverseV2 Softmax"),
        (_matmul, "MatMul BatchMatMul BatchMatMulV2"),
        (_einsum, "Einsum"),
    ]
    return {name: rule for rule, names in groups for name in names.split()}


_RULES = _rules()
