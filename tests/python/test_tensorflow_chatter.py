"""TensorFlow's remarks on its build are hidden from users, but its errors never are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any

import pytest

from jupyter_dtf import tensorflow_chatter

IMPORT = "import {first}; import tensorflow as tf; tf.constant(1.0) + 1; print('done')"


def said(code: str, **environment: str) -> tuple[str, str]:
    clean = {name: value for name, value in os.environ.items() if name != tensorflow_chatter.VARIABLE}
    command = [sys.executable, "-c", code]
    found = subprocess.run(
        command, env={**clean, **environment}, capture_output=True, text=True, timeout=120, check=False
    )
    return found.stdout, found.stderr


def test_tensorflow_has_nothing_to_say_after_jupyter_dtf() -> None:
    assert said(IMPORT.format(first="jupyter_dtf")) == ("done\n", "")


def test_a_persons_own_value_is_kept_and_shows_all() -> None:
    stdout, stderr = said(
        "import os, jupyter_dtf; print(os.environ['TF_CPP_MIN_LOG_LEVEL']); import tensorflow",
        **{tensorflow_chatter.VARIABLE: "0"},
    )
    assert stdout == "0\n"
    assert "oneDNN" in stderr or "cpu_feature_guard" in stderr


def test_what_else_is_written_while_tensorflow_is_imported_comes_through() -> None:
    code = """
import os, sys, jupyter_dtf
from jupyter_dtf import tensorflow_chatter
with tensorflow_chatter.filtered():
    os.write(2, b"I0000 00:00:1795375749.803968   27048 port.cc:153] oneDNN custom operations are on.\\n")
    os.write(2, b"E0000 00:00:1795375749.803968   27048 cuda_driver.cc:1] failed call to cuInit\\n")
    print("a warning of Python's", file=sys.stderr)
    os.write(2, b"2026-01-01 00:00:00.000001: F tensorflow/core/lib.cc:1] it cannot go on\\n")
    os.abort()
"""
    _, stderr = said(code)
    assert "oneDNN" not in stderr
    assert [line for line in ("cuInit", "a warning of Python's", "it cannot go on") if line not in stderr] == []


CHATTER = [
    "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
    "I0000 00:00:1795375749.803968   27048 port.cc:153] oneDNN custom operations are on.",
    "2026-01-01 10:00:00.123456: I tensorflow/core/platform/cpu_feature_guard.cc:210] This TensorFlow binary",
    "To enable the following instructions: AVX2 AVX512F FMA, in other operations, rebuild TensorFlow",
]
WARNINGS = [
    "W0000 00:00:1795375749.803968   27048 computation_placer.cc:177] computation placer already registered.",
    "2026-01-01 10:00:00.123456: W external/local_xla/xla/tsl/framework/cpu_allocator_impl.cc:83] Allocation of 1",
]
WORDS = [
    "E0000 00:00:1795375749.803968   27048 cuda_executor.cc:1228] failed call to cuInit: UNKNOWN ERROR (303)",
    "2026-01-01 10:00:00.123456: E tensorflow/core/lib.cc:1] wrong",
    "2026-01-01 10:00:00.123456: F tensorflow/core/platform/cpu_feature_guard.cc:89] compiled to use AVX instructions",
    "Traceback (most recent call last):",
    "I did something",
    "",
]


@pytest.mark.parametrize(
    ("level", "kept_out"),
    [(None, []), ("0", []), ("1", CHATTER), ("2", CHATTER + WARNINGS), ("3", CHATTER + WARNINGS)],
)
def test_which_lines_are_kept_out(monkeypatch: pytest.MonkeyPatch, level: str | None, kept_out: list[str]) -> None:
    monkeypatch.delenv(tensorflow_chatter.VARIABLE, raising=False)
    if level is not None:
        monkeypatch.setenv(tensorflow_chatter.VARIABLE, level)
    lines = tensorflow_chatter.pattern()
    found = [line for line in [*CHATTER, *WARNINGS, *WORDS] if lines and re.search(lines, line)]
    assert found == kept_out


def test_without_grep_or_a_standard_error_tensorflow_is_imported_all_the_same(monkeypatch: Any) -> None:
    monkeypatch.setattr("jupyter_dtf.tensorflow_chatter.shutil.which", lambda name: None)
    with tensorflow_chatter.filtered():
        pass
    code = (
        "import os; os.close(2); import jupyter_dtf; from jupyter_dtf import tensorflow_chatter\n"
        "with tensorflow_chatter.filtered(): print('in')"
    )
    assert said(code)[0] == "in\n"
