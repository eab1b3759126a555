from __future__ import annotations

import numpy as np

from jupyter_dtf.backend.records.hub import Hub
from jupyter_dtf.backend.records.zoomed_lines import part_of, zoomed_frames
from jupyter_dtf.schema.events import encode_event

from .run_events import points, run_info


def test_a_part_goes_one_point_beyond_its_limits() -> None:
    x = np.arange(10.0)
    assert part_of(x, 3, 5) == slice(2, 7)
    assert part_of(x, 3.2, 3.8) == slice(3, 5)  # between two points: the line passes through
    assert part_of(x, -5, 100) == slice(0, 10)
    assert part_of(np.empty(0), 0, 1) == slice(0, 0)


def test_steps_that_are_reported_again_are_in_it() -> None:
    x = np.array([0.0, 1, 2, 3, 1, 2, 3, 4])
    assert part_of(x, 1, 2) == slice(0, 7)
    assert part_of(x, 8, 9) == slice(0, 0)
    second_fit = np.array([0.0, 10, 5, 20])
    assert part_of(second_fit, 12, 15) == slice(2, 4)  # no point is there, but the line passes through
    assert part_of(second_fit, 6, 8) == slice(0, 4)


def test_a_zoomed_plot_has_the_mean_and_what_was_done_twice() -> None:
    hub = Hub()
    hub.add_run(run_info())
    rows = [{"loss": float(i)} for i in range(100)]
    hub.apply("r1", 0, encode_event(points("worker:0", 0, rows)))
    hub.apply("r1", 1, encode_event(points("worker:1", 0, rows)))
    hub.apply("r1", 2, encode_event(points("worker:1", 0, rows[:5], [50, 51, 52, 53, 54], attempt=1)))
    frames = {
        frame.task: frame for frame in zoomed_frames(hub, "r1", ["loss", "no such"], (48, 53), width=100, x="step")
    }
    assert set(frames) == {"", "worker:0", "worker:1", "worker:1, attempt 1"}
    assert frames["worker:1"].x == [47, 48, 49, 50, 51, 52, 53, 54]
    assert frames["worker:1"].y == [47, 48, 49, 0, 1, 2, 3, 4]
    assert frames["worker:1, attempt 1"].replaced == "worker:1"
    assert frames["worker:1, attempt 1"].y == [50, 51, 52, 53, 54]
