from __future__ import annotations

import itertools

import pytest

from jupyter_dtf.backend.records import kept_media
from jupyter_dtf.backend.records.hub import Hub
from jupyter_dtf.backend.records.kept_media import KeptMedia
from jupyter_dtf.errors import NotFound
from jupyter_dtf.schema.events import Histogram, MediaEvent, Picture, ReportedTable, ReportedText, encode_event

from .run_events import T0, run_info


def histogram(step: float, attempt: int = 0, name: str = "weights") -> Histogram:
    return Histogram(time=T0, task="worker:0", name=name, step=step, low=0, high=1, counts=[1, 2], attempt=attempt)


def picture(step: float, size: int = 100, name: str = "input") -> Picture:
    return Picture(time=T0, task="worker:0", name=name, step=step, png=b"x" * size, width=1, height=1)


def kept(*events: MediaEvent) -> KeptMedia:
    media = KeptMedia()
    for event in events:
        media.add(event)
    return media


def test_what_there_is_is_told_by_name_task_and_step() -> None:
    media = kept(histogram(2), histogram(1), picture(5), picture(9))
    assert [(one.kind, one.name, one.steps) for one in media.overview()] == [
        ("histogram", "weights", [1, 2]),
        ("image", "input", [5, 9]),
    ]
    assert [one.step for one in media.histograms("weights", "worker:0")] == [1, 2]
    assert media.picture("input", "worker:0", 8.5).step == 5
    with pytest.raises(NotFound, match="at or before step 4"):
        media.picture("input", "worker:0", 4)
    with pytest.raises(NotFound, match="no histogram 'nothing'"):
        media.histograms("nothing", "worker:0")


def test_of_many_every_second_goes_and_never_the_newest() -> None:
    media = kept(*(histogram(step) for step in range(5000)))
    steps = [one.step for one in media.histograms("weights", "worker:0")]
    assert len(steps) <= kept_media.MOST_OF_ONE
    assert (steps[0], steps[-1]) == (0, 4999)
    assert {b - a for a, b in itertools.pairwise(steps[:-1])} == {16}  # evenly


def test_pictures_have_a_bound_in_bytes_over_all_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_media, "MOST_BYTES", 100_000)
    media = kept(*(picture(step, 5_000, name) for step in range(40) for name in ("a", "b")))
    sizes = [len(one.steps) for one in media.overview()]
    assert 8 <= sum(sizes) <= 20
    assert [one.steps[-1] for one in media.overview()] == [39, 39]


def test_the_bound_holds_for_many_names_with_few_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_media, "MOST_BYTES", 100_000)

    def bytes_of(media: KeptMedia) -> int:
        return sum(5_400 * len(one.steps) for one in media.overview())

    pairs = kept(*(picture(step, 5_000, f"{number:02}") for step in range(2) for number in range(15)))
    assert bytes_of(pairs) <= 100_000
    assert [one.steps[-1] for one in pairs.overview()] == [1] * 15  # the older of two goes first
    large = kept(*(picture(step, 20_000, "large") for step in range(2)), *(picture(step, 100) for step in range(200)))
    assert [len(one.steps) for one in large.overview()][1] == 2  # other series can be thinned
    names = kept(*(picture(0, 5_000, f"{number:02}") for number in range(60)))
    left = [one.name for one in names.overview()]
    assert bytes_of(names) <= 100_000
    assert len(left) > 15
    assert left == [f"{number:02}" for number in range(60 - len(left), 60)]  # those reported last


def test_a_later_attempt_takes_the_place_of_what_it_repeats() -> None:
    media = kept(
        *(histogram(step) for step in range(10)), histogram(5, attempt=1), histogram(9), histogram(6, attempt=1)
    )
    assert [(one.step, one.attempt) for one in media.histograms("weights", "worker:0")] == [
        *((step, 0) for step in range(5)),
        (5, 1),
        (6, 1),
    ]


def test_a_run_has_them_beside_its_events() -> None:
    hub = Hub()
    hub.add_run(run_info())
    hub.apply("r1", 0, encode_event(histogram(3)))
    assert hub.events("r1") == []
    assert hub.record("r1").next_seq == 1
    (found,) = hub.media("r1", lambda media: media.histograms("weights", "worker:0"))
    assert (found.step, found.counts) == (3, [1, 2])


def test_texts_and_tables_are_found_by_their_step() -> None:
    said = [ReportedText(time=T0, task="worker:0", name="sample", step=step, text=f"at {step}") for step in (1, 5)]
    told = ReportedTable(time=T0, task="worker:0", name="sample", step=2, columns=["a"], rows=[["x"], [1.0]])
    media = kept(*said, told)
    assert [(one.kind, one.steps) for one in media.overview()] == [("table", [2]), ("text", [1, 5])]
    assert media.text("sample", "worker:0", 4).text == "at 1"
    assert media.table("sample", "worker:0", 9).rows == [["x"], [1.0]]
    with pytest.raises(NotFound, match="There is no text 'other'"):
        media.text("other", "worker:0", 9)
    with pytest.raises(NotFound, match="has no table 'sample' at or before step 1"):
        media.table("sample", "worker:0", 1)
