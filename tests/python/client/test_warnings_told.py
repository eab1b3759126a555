"""Warnings of a run are shown where the user waits for it."""

from __future__ import annotations

from jupyter_dtf.client.waiting import warnings_told
from jupyter_dtf.schema.events import Note

from .fake_run import FakeRun


def test_warnings_are_told_as_they_come_and_remarks_are_not() -> None:
    fake = FakeRun()
    told: list[str] = []
    fake.start()
    fake.give(Note(time=2.0, level="info", title="Replicas: 2"))
    with warnings_told(fake.run, told.append):
        fake.give(Note(time=3.0, level="warning", title="Not the step", text="It differs.", task="worker:0"))
        fake.end()
    assert told == ["warning (worker:0): Not the step. It differs."]
