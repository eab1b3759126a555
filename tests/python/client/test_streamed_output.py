from __future__ import annotations

import pytest

from jupyter_dtf.client.streamed_output import StreamedOutput

from .fake_run import FakeRun


def test_lines_begin_with_their_task(capfd: pytest.CaptureFixture[str]) -> None:
    fake = FakeRun()
    fake.start()
    with StreamedOutput(fake.run):
        fake.log("worker:0", "one", "two")
        fake.log("worker:1", "oops", stream="stderr")
    output = capfd.readouterr()
    assert output.out == "worker:0 | one\nworker:0 | two\n"
    assert output.err == "worker:1 | oops\n"
