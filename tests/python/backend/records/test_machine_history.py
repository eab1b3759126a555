from __future__ import annotations

import numpy as np

from jupyter_dtf.backend.records.machine_history import COARSE, FINE, MOST_HOSTS, Machines, Ring

T0 = 1_699_999_980.0  # the beginning of a minute


def test_an_hour_is_kept_as_it_was_told_and_what_is_older_by_the_minute() -> None:
    ring = Ring()
    count = FINE + 75  # two and a half minutes more
    for i in range(count):
        ring.add(T0 + 2 * i, float(i))
    points = ring.after(0.0)
    times, values = (np.array(column) for column in zip(*points, strict=True))
    assert len(points) == FINE + 3
    np.testing.assert_array_equal(values[:3], [14.5, 44.5, 67.0])  # the third minute is not over
    np.testing.assert_array_equal(values[3:], np.arange(75, count))
    assert (np.diff(times) > 0).all()
    assert ring.after(T0 + 2 * (count - 2)) == [(T0 + 2 * (count - 1), float(count - 1))]


def test_nothing_grows_without_bound() -> None:
    ring = Ring()
    for i in range(FINE + 2 * COARSE):
        ring.add(T0 + 61 * i, 1.0)
    assert len(ring.after(0.0)) == FINE + COARSE + 1
    machines = Machines()
    for i in range(MOST_HOSTS + 5):
        machines.add(f"host-{i:03}", T0 + i, {"cpu": 1.0})
        machines.add("host-000", T0 + i, {"cpu": 1.0})  # which keeps reporting
    hosts = [series.host for series in machines.after(0.0)]
    assert len(hosts) == MOST_HOSTS
    assert hosts[:2] == ["host-000", "host-006"]


def test_more_hosts_than_there_is_room_for_do_not_push_each_other_out() -> None:
    machines = Machines()
    for second in range(0, 20, 2):
        for i in range(MOST_HOSTS + 50):
            machines.add(f"host-{i:03}", T0 + second, {"cpu": 1.0})
    kept = machines.after(0.0)
    assert len(kept) == MOST_HOSTS
    assert all(len(series.time) == 10 for series in kept)


def test_a_clock_that_was_set_back_makes_no_line_that_goes_back() -> None:
    ring = Ring()
    for time in (10.0, 12.0, 4.0, 12.0, 14.0):
        ring.add(time, time)
    assert ring.after(0.0) == [(10.0, 10.0), (12.0, 12.0), (14.0, 14.0)]
