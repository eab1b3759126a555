"""Wrapping prose changes only its line breaks."""

from __future__ import annotations

from tools.wrap import wrapped

LONG = "word " * 40


def test_prose_is_wrapped_and_the_rest_is_left_alone() -> None:
    code = f"```python\n{LONG}\n```\n"
    table = f"| a | b |\n|---|---|\n| {LONG}| {LONG}|\n"
    text = f"# {LONG}\n\n{LONG}\n\n* {LONG}\n  {LONG}\n\n{code}\n{table}"
    found = wrapped(text)
    assert code in found and table in found and f"# {LONG}\n" in found
    prose = [line for line in found.replace(code, "").replace(table, "").splitlines() if not line.startswith("#")]
    assert max(map(len, prose)) < 120
    assert found.split() == text.split()
    assert [line[:3] for line in prose if line.strip()] == ["wor", "wor", "* w", "  w", "  w", "  w"]
    assert wrapped(found) == found


def test_no_line_comes_to_begin_with_what_means_something_else() -> None:
    for sign in ("*", "-", "+", "1.", "#", ">", "| a |"):
        for count in range(100, 120):
            text = "x" * count + f" {sign} y\n"
            assert wrapped(text).split() == text.split()
            assert not any(line.startswith(sign) for line in wrapped(text).splitlines())


def test_code_spans_and_meant_breaks_stay_whole() -> None:
    span = "`dtf.Cluster(jobs={'worker': 2}, name='a name')`"
    assert span in wrapped(f"{'x ' * 45}{span} {'y ' * 30}\n")
    assert wrapped("a  \nb\n") == "a  \nb\n"
