"""What a checkup reports about a host."""

from __future__ import annotations

import pytest

from jupyter_dtf.backend.planning import host_findings
from jupyter_dtf.schema.checkup import ERROR, OK, WARNING, FreeSpace

GIB = 1 << 30


@pytest.mark.parametrize(
    ("path", "free", "level"),
    [("/tmp", 10 * GIB, OK), ("/tmp", GIB >> 3, WARNING), ("/dev/shm", GIB >> 4, OK), ("/dev/shm", 9, ERROR)],
)
def test_a_disk_with_little_room(path: str, free: int, level: str) -> None:
    (found,) = host_findings.of_free_space([FreeSpace("runs", path, free, 20 * GIB, "move it")])
    assert found.level == level
    assert ("Free some space, or move it" in found.text) is (level != OK)


@pytest.mark.parametrize(
    ("visible", "there", "said"),
    [
        (None, [], "none, and none was requested"),
        ("", ["A100"], "A100"),
        ("-1", [], "none, and none was requested"),
        ("0,1", ["A100", "A100"], "A100, A100"),
        ("0,1", ["A100"], "GPU 1 was requested (CUDA_VISIBLE_DEVICES=0,1), but is missing"),
        ("0, 1", [], "GPUs 0, 1 were requested (CUDA_VISIBLE_DEVICES=0, 1), but are missing"),
    ],
)
def test_a_gpu_that_was_asked_for_and_is_not_there(visible: str | None, there: list[str], said: str) -> None:
    (found,) = host_findings.of_gpus(visible, there, "tensorflow")
    assert found.text.startswith(said)
    assert found.level == (ERROR if "missing" in said else OK)


def test_a_tensorflow_that_knows_no_gpus_beside_one() -> None:
    (found,) = host_findings.of_gpus(None, ["A100"], "tensorflow-cpu")
    assert (found.level, found.text[:33]) == (WARNING, "The installed TensorFlow computes")


def test_tensorflow_that_is_missing_or_cannot_be_imported() -> None:
    both = {"TensorFlow": "2.21.0", "Keras": "3.15.1"}
    (found,) = host_findings.of_tensorflow(both, "", is_imported=False)
    assert (found.level, found.text) == (OK, "TensorFlow 2.21.0, Keras 3.15.1")
    (found,) = host_findings.of_tensorflow(both, "It could not be imported", is_imported=False)
    assert (found.level, found.text) == (ERROR, "It could not be imported")
    (found,) = host_findings.of_tensorflow({"Keras": "3"}, "No module", is_imported=False)
    assert (found.level, found.text[:27]) == (ERROR, "TensorFlow is not installed")
    (found,) = host_findings.of_tensorflow({"Keras": "3"}, "", is_imported=True)  # a custom build
    assert found.level == OK


def test_clocks_apart() -> None:
    assert host_findings.of_clock(0.02, 0.01).level == OK
    assert host_findings.of_clock(1.4, 0.5).level == OK  # it may be the network delay
    found = host_findings.of_clock(-40, 0.5)
    assert (found.level, found.text[:28]) == (WARNING, "40 s behind the cluster's: t")


def test_every_host_tries_others_and_is_tried() -> None:
    assert host_findings.pairs_to_try(1) == []
    assert len(host_findings.pairs_to_try(3)) == 6
    for count in (17, 64, 1000):
        pairs = host_findings.pairs_to_try(count)
        assert len(set(pairs)) == len(pairs) <= 10 * count
        assert {source for source, _ in pairs} == {target for _, target in pairs} == set(range(count))
        assert all(source != target for source, target in pairs)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 7])
def test_every_pair_meets_once_and_no_host_is_in_two_pairs(count: int) -> None:
    rounds = host_findings.rounds(count)
    pairs = [pair for each in rounds for pair in each]
    assert sorted(pairs) == [(a, b) for a in range(count) for b in range(count) if a != b]
    for each in rounds:
        hosts = [host for pair in each for host in pair]
        assert len(hosts) == len(set(hosts))
