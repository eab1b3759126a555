"""Alarms that a user requested for a run, raised from the reports of its epochs and hosts."""

from __future__ import annotations

import math

import pytest

from jupyter_dtf.backend.cluster.alarms import Alarms, Word
from jupyter_dtf.backend.planning.gpu_assignment import GpuAssignment
from jupyter_dtf.backend.planning.launch_plan import HostSlot, PlannedTask
from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.events import EpochEnded
from jupyter_dtf.schema.machines import GpuInfo, HostInfo
from jupyter_dtf.schema.notify import Notify, as_notify
from jupyter_dtf.schema.run import RunState


def words(wanted: Notify | None, *logs: dict[str, float], first: int = 0) -> list[Word | None]:
    alarms = Alarms(wanted)
    return [alarms.epoch(EpochEnded(time=1.0, epoch=first + n, step=n, logs=each)) for n, each in enumerate(logs)]


def test_epochs_without_improvement_are_counted_from_the_best() -> None:
    losses = [1.0, 0.5, 0.6, 0.5, 0.4, 0.4, 0.4, 0.4]
    found = words(Notify(no_improvement=2), *({"loss": loss} for loss in losses))
    assert [n for n, word in enumerate(found) if word] == [3, 6]
    assert found[3] == Word("no improvement", "loss has not improved for 2 epochs", "It is 0.5; the best was 0.5")
    both = [{"loss": 1.0 - n, "val_loss": 1.0} for n in range(2)]
    (_, validation) = words(Notify(no_improvement=1), *both)
    assert validation is not None
    assert validation.title.startswith("val_loss")
    rising = words(Notify(no_improvement=1, metric="accuracy"), {"accuracy": 0.1}, {"accuracy": 0.2}, {"accuracy": 0.2})
    assert [word is None for word in rising] == [True, True, False]
    assert words(None, {"loss": 1.0}, {"loss": 1.0}) == [None, None]

    never = words(Notify(no_improvement=2), *({"loss": loss} for loss in (math.nan, math.nan, 1.0, 0.5)))
    title = "loss has not improved for 2 epochs"
    assert never == [None, Word("no improvement", title, "It is NaN; it was never a number"), None, None]


def test_an_epoch_that_is_done_again_counts_once_and_an_unknown_metric_is_told_of() -> None:
    alarms = Alarms(Notify(no_improvement=1))
    assert [alarms.epoch(EpochEnded(time=1.0, epoch=0, step=1, logs={"loss": 1.0})) for _ in range(3)] == [None] * 3
    missing = words(Notify(no_improvement=1, metric="f1"), {"loss": 1.0}, {"loss": 1.0})
    assert missing == [Word("no improvement", "There is no metric f1 to watch", "Epochs report loss"), None]


def host(cpu: float = 1.0, used: int = 10, gpus: tuple[float, ...] = ()) -> HostInfo:
    told = [
        GpuInfo(id=f"GPU-{n}", index=n, name="g", memory_bytes=10, memory_used_bytes=9, utilization=busy)
        for n, busy in enumerate(gpus)
    ]
    return HostInfo(name="h", address="a", memory_bytes=100, memory_used_bytes=used, cpu=cpu, gpus=told)


def planned(job: str = "worker", gpus: tuple[str, ...] = ()) -> PlannedTask:
    return PlannedTask(job, 1, 0, HostSlot("a", "h", "m", 1), 1, 0, 1, gpus=GpuAssignment(gpus=gpus))


def test_devices_that_do_nothing_and_memory_that_is_full_are_told_of_once() -> None:
    alarms = Alarms(Notify(idle_s=10))

    def look(now: float, task: PlannedTask, of: HostInfo, state: RunState = RunState.RUNNING) -> list[str]:
        return [word.title for word in alarms.machines(state, [task], {"a": of}, now)]

    assert look(0, planned(), host(cpu=0.0)) == look(9, planned(), host(cpu=0.0)) == []
    assert look(10, planned(), host(cpu=0.0)) == ["The CPU of worker:1 has been idle for 10 s"]
    assert look(30, planned(), host(cpu=0.0)) == []
    assert look(31, planned(), host(cpu=2.0)) == look(32, planned(), host(cpu=0.0)) == []
    assert look(40, planned(), host(cpu=0.0), RunState.RESTARTING) == look(43, planned(), host(cpu=0.0)) == []
    assert look(53, planned(), host(cpu=0.0)) == ["The CPU of worker:1 has been idle for 10 s"]
    assert look(60, planned("ps"), host(cpu=0.0)) == look(99, planned("ps"), host(cpu=0.0)) == []

    own = planned(gpus=("GPU-1",))
    assert look(100, own, host(gpus=(0.0, 0.0))) == []
    assert look(110, own, host(gpus=(0.0, 0.0))) == ["The GPU 1 of worker:1 has been idle for 10 s"]
    full = ["91% of the memory of host h is in use"]
    assert [look(now, own, host(used=used)) for now, used in ((120, 90), (121, 91), (122, 95))] == [[], full, []]
    assert [look(now, own, host(used=used)) for now, used in ((123, 20), (124, 91))] == [[], full]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("nan", 1),
        ("no_improvement", 0),
        ("metric", "loss"),
        ("idle_s", 0.5),
        ("memory", 90),
        ("call", "print"),
        ("command", 'say "it'),
    ],
)
def test_what_breaks_a_rule_is_refused(field: str, value: object) -> None:
    with pytest.raises(InvalidInput) as error:
        Notify(**{field: value})  # type: ignore[arg-type]
    assert error.value.field == f"notify.{field}"


def test_what_a_person_may_write() -> None:
    assert as_notify(True) == Notify()
    assert as_notify(False) is None
    assert as_notify(print) == Notify(call=print)
    with pytest.raises(InvalidInput, match="got 'nan'"):
        as_notify("nan")  # type: ignore[arg-type]
