from __future__ import annotations

import math
import re
from typing import Any

import pytest

from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.base import MAX_DEPTH, Struct, convert, decode_json, encode_json, to_plain


class Inner(Struct):
    number: int
    words: list[str] = []

    def __post_init__(self) -> None:
        if self.number < 0:
            raise InvalidInput(f"`number` must be >= 0, got {self.number}", field="number")


class Outer(Struct):
    inner: Inner
    many: list[Inner] = []
    named: dict[str, int] = {}
    free: dict[str, Any] = {}


def test_a_struct_is_read_and_written() -> None:
    value = decode_json(b'{"inner": {"number": 1}, "many": [{"number": 2, "words": ["a"]}], "free": {"x": [1]}}', Outer)
    assert value == Outer(inner=Inner(number=1), many=[Inner(number=2, words=["a"])], free={"x": [1]})
    assert decode_json(encode_json(value), Outer) == value
    assert convert(to_plain(value), Outer) == value


def test_what_json_cannot_say_becomes_null() -> None:
    assert encode_json([math.nan, math.inf, 1.5]) == b"[null,null,1.5]"


@pytest.mark.parametrize(
    ("text", "field", "message"),
    [
        ("{}", "", "Object missing required field `inner`, got {}"),
        ('{"inner": 1}', "inner", "inner: Expected `object`, got `int`: 1"),
        ('{"inner": {"number": "1"}}', "inner.number", "inner.number: Expected `int`, got `str`: '1'"),
        ('{"inner": {"number": 1, "x": 2}}', "inner.x", "inner: Object contains unknown field `x`, got {"),
        ('{"y": 1, "inner": {"number": 1}}', "y", "Object contains unknown field `y`, got {"),
        ('{"inner": {"number": -1}}', "inner.number", "`number` must be >= 0, got -1"),
        (
            '{"inner": {"number": 1}, "many": [{"number": 1}, {"number": -2}]}',
            "many.1.number",
            "`number` must be >= 0, got -2",
        ),
        (
            '{"inner": {"number": 1}, "many": [{"number": 1, "words": ["a", 5]}]}',
            "many.0.words.1",
            "many.0.words.1: Expected `str`, got `int`: 5",
        ),
        (
            '{"inner": {"number": 1}, "named": {"a": 1, "b": "2"}}',
            "named.b",
            "named.b: Expected `int`, got `str`: '2'",
        ),
        ("[", "", "The body must be JSON"),
        ("", "", "The body must be JSON"),
        ("[]", "", "Expected `object`, got `array`: []"),
    ],
)
def test_a_refusal_names_the_field_the_rule_and_the_value(text: str, field: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(message)) as caught:
        decode_json(text, Outer)
    assert caught.value.field == field


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(InvalidInput, match="must be JSON"):
        decode_json(b'{"inner": "\xff"}', Outer)


def test_a_long_value_is_shortened() -> None:
    with pytest.raises(InvalidInput) as caught:
        decode_json('{"inner": "' + "x" * 10_000 + '"}', Outer)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 900, 100_000])
@pytest.mark.parametrize(("left", "right"), [("[", "]"), ('{"a":', "}")])
def test_what_is_nested_too_deep_is_refused(depth: int, left: str, right: str) -> None:
    text = '{"inner": {"number": 1}, "free": {"x": ' + left * depth + "1" + right * depth + "}}"
    with pytest.raises(InvalidInput, match=f"at most {MAX_DEPTH} levels"):
        decode_json(text, Outer)
