from __future__ import annotations

import pytest

from jupyter_dtf.backend.task.trace.device_names import plain, satisfies

FULL = "/job:worker/replica:0/task:1/device:CPU:0"


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        (FULL, "/job:worker/task:1/device:CPU:0"),
        ("/job:worker/task:1/cpu:0", "/job:worker/task:1/device:CPU:0"),
        ("/job:worker/task:1", "/job:worker/task:1"),
        ("/device:GPU:*", "/device:GPU:0"),
        ("/gpu:1", "/device:GPU:1"),
        ("", ""),
    ],
)
def test_one_spelling(device: str, expected: str) -> None:
    assert plain(device) == expected


def test_a_local_device_is_that_of_the_task() -> None:
    task = "/job:ps/task:2"
    assert plain("/job:localhost/replica:0/task:0/device:CPU:0", task) == "/job:ps/task:2/device:CPU:0"
    assert plain("/device:CPU:1", task) == "/job:ps/task:2/device:CPU:1"
    assert plain(FULL, task) == "/job:worker/task:1/device:CPU:0"


@pytest.mark.parametrize("asked", ["", "/job:worker", "/job:worker/task:1", "/cpu:0", "/device:CPU:*", FULL])
def test_what_is_left_open_is_satisfied(asked: str) -> None:
    assert satisfies(FULL, asked)


@pytest.mark.parametrize("asked", ["/job:ps", "/job:worker/task:0", "/gpu:0", "/device:CPU:1"])
def test_what_is_asked_for_is_not_elsewhere(asked: str) -> None:
    assert not satisfies(FULL, asked)
