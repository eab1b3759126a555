from __future__ import annotations

from jupyter_dtf.backend.records.output_tail import MOST_BYTES, EmptiedEvents, OutputTail
from jupyter_dtf.schema.events import Logged, decode_event


def test_the_oldest_of_who_has_most_goes_first() -> None:
    tail = OutputTail()
    assert tail.add(0, ("worker:1", "stdout"), 1000) == []  # a task with little output keeps it
    gone = [seq for i in range(100) for seq, _ in tail.add(1 + i, ("worker:0", "stdout"), MOST_BYTES // 10)]
    assert gone == list(range(1, 92))
    assert tail.shrink(0) == [(seq, ("worker:0", "stdout")) for seq in range(92, 100)]
    assert tail.shrink(0) == []  # the newest event of each stays


def test_one_event_stands_for_all_that_went() -> None:
    emptied = EmptiedEvents()
    data = emptied.of(("worker:0", "stderr"))
    assert data is emptied.of(("worker:0", "stderr"))
    assert decode_event(data) == Logged(time=0.0, task="worker:0", stream="stderr", first=0, lines=[])
