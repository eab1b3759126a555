from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.text import MAX_WHOLE, InvalidText, field_of, locate, read, write

from .any_design import attempt, is_in

FORMS = Path(__file__).parents[2] / "designs" / "forms.dtf"

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-MAX_WHOLE, MAX_WHOLE)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(), inside, max_size=4),
    max_leaves=20,
)


def test_the_form_is_the_one_that_the_browser_writes_too() -> None:
    text = FORMS.read_text(encoding="utf-8")
    assert write(read(text)) == text


@given(plain)
@settings(derandomize=True, deadline=None)
def test_what_is_written_is_read_again_and_is_json(value: Any) -> None:
    text = write(value)
    assert read(text) == value
    assert json.loads(text, parse_int=float) == value
    assert write(read(text)) == text


@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")) | plain.map(json.dumps))
@example("[" * 100_000)
@example("1" * 10_000)
@example("1e999")
@example("-" + "9" * 400)
@example('{"a": [NaN]}')
@example('"\\ud800"')
@example('{"\\ud800": 1}')
@example("\ud800")
@example("\ufeff{}")
@settings(derandomize=True, deadline=None)
def test_any_text_is_read_or_refused(text: str) -> None:
    value, refused = attempt(read, text)
    if refused is None:
        assert read(write(value)) == value
    else:
        assert is_in(text, refused)


@pytest.mark.parametrize(
    ("text", "place", "field", "message"),
    [
        ('{"a": 1,\n "b": }', (2, 7), "", "A design must be JSON: Expecting value"),
        ('{"a": 1}\n[]', (2, 1), "", "A design must be JSON: Extra data"),
        ("", (1, 1), "", "A design must be JSON: Expecting value"),
        ('{"a": {"b": 1,\n  "b": 2}}', (2, 8), "a.b", "Keys must be unique, got 'b' twice"),
        ('{"a": [1,\n  {"b": 1e999}]}', (2, 9), "a[1].b", "Numbers must be finite, got inf"),
        ('[\n"\\ud800"]', (2, 1), "[0]", "Strings must not contain lone surrogates, got '\\ud800'"),
        ("[" * 33 + "]" * 33, (1, 33), "[0]" * 32, "JSON must be nested at most 32 levels deep"),
    ],
)
def test_errors_say_where(text: str, place: tuple[int, int], field: str, message: str) -> None:
    with pytest.raises(InvalidText) as refused:
        read(text)
    assert (refused.value.line, refused.value.column) == place
    assert refused.value.field == field
    assert message in str(refused.value)


def test_the_nearest_place_there_is() -> None:
    text = '{\n  "a": [\n    {"b": 1},\n    {"c": 2}\n  ]\n}\n'
    assert locate(text, ["a", 1, "c"]) == (4, 11)
    assert locate(text, ["a", 1, "missing"]) == (4, 5)
    assert locate(text, ["a", 7]) == (2, 8)
    assert locate(text, ["a", 0, "b", "deeper"]) == (3, 11)
    assert locate(text, []) == (1, 1)
    assert field_of(["a", 1, "c"]) == "a[1].c"


@pytest.mark.parametrize("value", [math.nan, math.inf, 2**53 + 1, 10**400, "\ud800", {"\ud800": 1}])
def test_what_could_not_be_read_again_is_not_written(value: Any) -> None:
    with pytest.raises(InvalidInput, match=", got "):
        write([value])


def test_large_whole_numbers_are_those_that_floats_can_be() -> None:
    assert read(write([2**60, 10**22])) == [2**60, 10**22]
