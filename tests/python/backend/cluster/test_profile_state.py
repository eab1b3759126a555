"""When a profile is complete, and what is reported about it."""

from __future__ import annotations

from typing import Any

from jupyter_dtf.backend.cluster.profile_state import Profile
from jupyter_dtf.backend.cluster.profiling import _pace
from jupyter_dtf.schema.events import Point, Points, Profiled, TracedSteps, encode_event, encode_points
from jupyter_dtf.schema.run import TaskInfo, TaskState

NAMES = ("worker:0", "worker:1", "ps:0")


def says(profile: Profile, task: str, stage: str, number: int = 1, attempt: int = 0, **more: Any) -> None:
    profile.hear(TracedSteps(time=0, task=task, profile=number, stage=stage, attempt=attempt, **more))


def profile_of(**more: Any) -> tuple[Profile, list[TaskInfo]]:
    tasks = [TaskInfo(task=task, state=TaskState.RUNNING) for task in NAMES]
    return Profile(1, 3, dict.fromkeys(NAMES, 0), **more), tasks


def test_it_waits_for_all_that_make_steps_and_for_every_answer() -> None:
    profile, tasks = profile_of()
    says(profile, "worker:0", "waits", has_steps=True)
    says(profile, "worker:1", "waits", has_steps=True)
    assert not profile.has_begun and profile.whom() == "worker:0, worker:1 trace 3 steps"
    says(profile, "worker:0", "begun", has_steps=True)
    says(profile, "worker:0", "left", first=5, last=7)
    says(profile, "worker:1", "left", first=6, last=8)
    assert profile.has_begun and profile.verdict(tasks) is None  # ps:0 has not answered yet
    says(profile, "ps:0", "waits")
    said = profile.verdict(tasks)
    assert said is not None and (said.number, said.done, said.message) == (1, True, "")
    assert profile.words()[0] == "Steps 5 to 7 were traced"
    assert profile.verdict(tasks) is None  # it is reported only once


def test_a_task_that_a_client_leads_is_waited_for_once_it_has_begun() -> None:
    profile, tasks = profile_of()
    for task in NAMES:
        says(profile, task, "waits", has_steps=task == "worker:0")
    says(profile, "worker:1", "begun")
    says(profile, "worker:0", "left", first=5, last=7)
    assert profile.verdict(tasks) is None
    says(profile, "worker:1", "left", first=5, last=7)
    assert profile.verdict(tasks) is not None


def test_all_are_waited_for_where_each_makes_steps() -> None:
    profile, tasks = profile_of(all_of_them=True)
    for task in NAMES:
        says(profile, task, "waits")
    says(profile, "worker:0", "left", first=5, last=5)
    says(profile, "worker:1", "left", first=5, last=5)
    assert profile.verdict(tasks) is None
    tasks[2].state = TaskState.FAILED  # a task that has failed is not waited for
    assert profile.verdict(tasks) is not None
    assert profile.words()[0] == "Step 5 was traced"


def test_a_task_that_was_started_again_is_not_waited_for() -> None:
    profile, tasks = profile_of(all_of_them=True)
    for task in ("worker:0", "ps:0"):
        says(profile, task, "left", first=5, last=6)
    tasks[1].attempt = 1
    says(profile, "worker:1", "begun", attempt=1)
    assert profile.verdict(tasks) is not None


def test_words_of_another_profile_are_not_heard() -> None:
    profile, tasks = profile_of(all_of_them=True)
    for task in NAMES:
        says(profile, task, "left", number=2, first=5, last=6)
    assert profile.verdict(tasks) is None


def test_it_says_why_there_is_no_trace() -> None:
    profile, tasks = profile_of(all_of_them=True)
    for task in NAMES:
        says(profile, task, "failed", message="AlreadyExistsError: another profiler")
    said = profile.verdict(tasks)
    assert said is not None and said.message.startswith("worker:0: AlreadyExistsError: another profiler; worker:1")
    profile, tasks = profile_of()
    said = profile.verdict(tasks, "The run is paused")
    assert said is not None and said.message == "The run is paused"


def test_what_some_have_left_is_there_whatever_became_of_the_others() -> None:
    profile, tasks = profile_of(all_of_them=True)
    says(profile, "worker:0", "left", first=5, last=6)
    says(profile, "worker:1", "failed", message="no room")
    said = profile.verdict(tasks, "The run has ended")
    assert said is not None and not said.message
    assert profile.words()[1].endswith(". worker:1 has written no trace: no room")


def test_the_pace_of_a_training_is_what_its_newest_points_tell() -> None:
    def points(*told: Point) -> bytes:
        return encode_event(Points(time=0, task="worker:0", first=0, count=len(told), data=encode_points(list(told))))

    log = [points(Point(1, 0, {"loss": 3.0})), encode_event(Profiled(time=0, number=1, steps=3))]
    assert _pace(log) == (0, 0.0)
    log.append(points(Point(2, 0, {"step_seconds": 0.5}), Point(3, 0, {"step_seconds": 0.125})))
    log.append(points(Point(2, 0, {"cpu": 0.5}), Point(4, 0, {"step_seconds": 0.25})))
    assert _pace(log) == (4, 0.125)
