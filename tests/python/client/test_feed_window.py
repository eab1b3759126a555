"""Tests of which batches of a stream are kept, and when the next one is read."""

from __future__ import annotations

from jupyter_dtf.client.feed_window import AHEAD, AHEAD_BYTES, BACK, BACK_BYTES, Batch, Window


def batch(size: int) -> Batch:
    return Batch([], 1, size)


def test_small_batches_are_read_ahead_up_to_so_many_bytes() -> None:
    window = Window()
    size = AHEAD_BYTES // 8
    while window.has_room:
        window.add(batch(size))
    assert window.count == 8
    window.move(1)
    assert window.has_room
    window.add(batch(size))
    assert not window.has_room


def test_two_batches_are_read_ahead_however_large_they_are() -> None:
    window = Window()
    while window.has_room:
        window.add(batch(10 * AHEAD_BYTES))
    assert window.count == AHEAD


def test_what_was_sent_is_kept_for_a_while_and_the_first_ones_throughout() -> None:
    window = Window()
    batches = [batch(BACK_BYTES) for _ in range(20)]
    for number, each in enumerate(batches):
        window.add(each)
        window.move(number + 1)
    assert window.first == 20 - BACK
    assert window.get(1) is batches[1] and window.get(2) is None and window.get(19) is batches[19]
    assert window.has(20 - BACK) and not window.has(19 - BACK) and not window.has(0)


def test_who_goes_back_has_what_is_kept_counted_as_ahead_again() -> None:
    window = Window()
    for number in range(8):
        window.add(batch(AHEAD_BYTES // 4))
        window.move(number + 1)
    window.move(2)
    assert not window.has_room
    window.move(5)
    assert window.has_room
    window.move(0)
    assert window.has(0) and [window.get(number) is not None for number in range(8)] == [True] * 8


def test_nothing_is_read_after_the_end() -> None:
    window = Window()
    window.ended = 0
    assert not window.has_room
