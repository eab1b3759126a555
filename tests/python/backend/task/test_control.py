"""Tests of the host's commands to a task: if one fails, later ones, and the end of the host, are still handled."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_dtf.backend.task import process
from jupyter_dtf.schema.launch import leave_without

from ...patience import left_s


def test_a_command_that_cannot_be_followed_is_told_and_the_next_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "killpg", lambda *arguments: killed.append(arguments))
    went_without: list[frozenset[str]] = []
    ctx: Any = SimpleNamespace(
        task_dir=tmp_path,
        stop_requested=threading.Event(),
        checkpoint_wanted=threading.Event(),
        work_done=threading.Event(),
        going_over=SimpleNamespace(call=lambda spec: pytest.fail("there is none")),
        go_without=went_without.append,
        tracer=SimpleNamespace(ask=lambda order: pytest.fail("there is none")),
    )
    read, write = os.pipe()
    listening = threading.Thread(target=process._listen, args=(read, ctx))
    listening.start()
    try:
        os.write(write, b"nwp")  # none of the files exists
        os.write(write, b"c")
        assert ctx.checkpoint_wanted.wait(left_s())
        leave_without(tmp_path, ["worker:1"])
        os.write(write, b"nws")  # ``n`` fails again
        assert ctx.stop_requested.wait(left_s())
        assert not killed
    finally:
        os.close(write)
        listening.join(left_s())
        os.close(read)
    assert set(went_without) == {frozenset({"worker:1"})}
    assert killed == [(0, 9)]  # the host is gone
    said = capsys.readouterr().err
    assert "The host's command (n) could not be carried out" in said
    assert "FileNotFoundError" in said
