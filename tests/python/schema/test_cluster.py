from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest

from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.cluster import ClusterSpec, check_job_name, check_jobs, split_endpoint

FLAG = "worker|h1:2222;h2:2223,ps|h3:2221"
LISTS = {"worker": ["h1:2222", "h2:2223"], "ps": ["h3:2221"]}


class TfSpec:
    """The part of ``tf.train.ClusterSpec`` that is used."""

    def __init__(self, jobs: dict[str, Any]) -> None:
        self._jobs = jobs

    def as_dict(self) -> dict[str, Any]:
        return self._jobs

    def job_tasks(self, name: str) -> list[str]:
        return list(self._jobs[name])


@pytest.mark.parametrize(
    "value",
    [
        FLAG,
        f" {FLAG} ",
        " worker | h1:2222 ; h2:2223 , ps | h3:2221 ".replace(" |", "|"),
        LISTS,
        {"worker": {0: "h1:2222", 1: "h2:2223"}, "ps": {"0": "h3:2221"}},
        {"worker": ("h1:2222", "h2:2223"), "ps": ["h3:2221"]},
        {"cluster": LISTS, "task": {"type": "worker", "index": 0}},
        json.dumps({"cluster": LISTS, "task": {"type": "worker", "index": 0}, "environment": "cloud"}),
        json.dumps(LISTS),
        TfSpec(LISTS),
        ClusterSpec(LISTS),
    ],
)
def test_every_form_is_read(value: Any) -> None:
    spec = ClusterSpec.parse(value)
    assert spec == ClusterSpec(LISTS)
    assert hash(spec) == hash(ClusterSpec(LISTS))
    assert list(spec.tasks()) == [("worker", 0, "h1:2222"), ("worker", 1, "h2:2223"), ("ps", 0, "h3:2221")]


def test_every_form_is_given_back() -> None:
    spec = ClusterSpec.parse(FLAG)
    assert spec.as_flag() == FLAG
    assert spec.as_dict() == LISTS
    assert spec.jobs == {"worker": {0: "h1:2222", 1: "h2:2223"}, "ps": {0: "h3:2221"}}
    assert json.loads(spec.as_tf_config("ps", 0)) == {"cluster": LISTS, "task": {"type": "ps", "index": 0}}
    assert spec.endpoint("worker", 1) == "h2:2223"
    assert eval(repr(spec), {"ClusterSpec": ClusterSpec}) == spec


def test_indices_may_be_sparse() -> None:
    spec = ClusterSpec.parse({"worker": {3: "h:2223", 0: "h:2222"}})
    assert spec.as_dict() == {"worker": {0: "h:2222", 3: "h:2223"}}
    assert ClusterSpec.parse(spec.as_tf_config("worker", 3)) == spec
    with pytest.raises(InvalidInput, match=r"must not be sparse in a flag string, got worker with tasks \[0, 3\]"):
        spec.as_flag()


def test_a_job_may_be_called_cluster() -> None:
    spec = ClusterSpec.parse({"cluster": ["h:1"], "worker": ["h:2"]})
    assert set(spec.jobs) == {"cluster", "worker"}


@pytest.mark.slow
def test_tensorflow_reads_it_and_is_read() -> None:
    tf = pytest.importorskip("tensorflow")
    for jobs in (LISTS, {"worker": {0: "h:2222", 3: "h:2223"}}):
        spec = ClusterSpec.parse(jobs)
        assert ClusterSpec.parse(spec.as_tf()) == spec
        assert spec.as_tf() == tf.train.ClusterSpec(jobs)


@pytest.mark.parametrize(
    ("value", "rule", "field"),
    [
        ("", "The flag string must be", ""),
        ("worker", "The flag string must be", ""),
        ("worker|", "A job must have at least one task, got none for 'worker'", "worker"),
        ("worker|h:1,worker|h:2", "A job must appear only once, got 'worker' twice", "worker"),
        ("worker|h:1;h:1", "got 'h:1' for worker:0 and worker:1", "worker.1"),
        ("worker|h:1,ps|h:1", "got 'h:1' for worker:0 and ps:0", "ps.0"),
        ("worker|h", "An endpoint must be host:port, got 'h'", "worker.0"),
        ("worker|h:0", "A port must be a number from 1 to 65535, got 'h:0'", "worker.0"),
        ("worker|h:65536", "A port must be a number from 1 to 65535, got 'h:65536'", "worker.0"),
        ("worker|h:-1", "An endpoint must be host:port, got 'h:-1'", "worker.0"),
        ("worker|h:1;;h:2", "An endpoint must be host:port, got ''", "worker.1"),
        ("1worker|h:1", "A job's name must be a letter followed by", "1worker"),
        ("wor-ker|h:1", "A job's name must be a letter followed by", "wor-ker"),
        ({}, "must map at least one job name to endpoints, got {}", ""),
        ({"worker": []}, "A job must have at least one task", "worker"),
        ({"worker": "h:1"}, "A job's tasks must be a list of endpoints or a dict", "worker"),
        ({"worker": None}, "A job's tasks must be a list of endpoints or a dict", "worker"),
        ({"worker": [1]}, "An endpoint must be host:port, got 1", "worker.0"),
        ({"worker": {-1: "h:1"}}, "A task index must be an integer >= 0, got -1", "worker"),
        ({"worker": {"-1": "h:1"}}, "A task index must be an integer >= 0, got '-1'", "worker"),
        ({"worker": {"a": "h:1"}}, "A task index must be an integer >= 0, got 'a'", "worker"),
        ({"worker": {True: "h:1"}}, "A task index must be an integer >= 0, got True", "worker"),
        ({"worker": {1.5: "h:1"}}, "A task index must be an integer >= 0, got 1.5", "worker"),
        ({"worker": {0: "h:1", "0": "h:2"}}, "Task indices of a job must be unique, got 0 twice", "worker"),
        ({1: ["h:1"]}, "A job's name must be a letter followed by", "1"),
        ('{"worker": ["h:1"], "worker": ["h:2"]}', "must appear only once, got 'worker' twice", ""),
        ('{"worker": {"0": "h:1", "0": "h:2"}}', "must appear only once, got '0' twice", ""),
        ('{"worker": ', "TF_CONFIG must be JSON", ""),
        ('{"cluster": {}}', "must map at least one job name to endpoints", ""),
        (42, "A ClusterSpec must be given as", ""),
        (None, "A ClusterSpec must be given as", ""),
        (["h:1"], "A ClusterSpec must be given as", ""),
    ],
)
def test_what_is_no_cluster_spec_is_refused_with_the_rule_and_the_value(value: Any, rule: str, field: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(rule)) as caught:
        ClusterSpec.parse(value)
    assert caught.value.field == field
    assert ", got " in str(caught.value)


def test_an_unknown_task_is_refused() -> None:
    spec = ClusterSpec.parse(FLAG)
    for job, index in (("worker", 2), ("chief", 0)):
        with pytest.raises(InvalidInput, match=f"got {job}:{index}"):
            spec.endpoint(job, index)
        with pytest.raises(InvalidInput, match=f"got {job}:{index}"):
            spec.as_tf_config(job, index)


def test_any_cluster_spec_survives_every_form() -> None:
    for seed in range(300):
        jobs = some_jobs(random.Random(seed))
        spec = ClusterSpec(jobs)
        assert ClusterSpec.parse(spec.as_dict()) == spec, seed
        assert ClusterSpec.parse(json.dumps(spec.as_dict())) == spec, seed
        job, index, _ = next(spec.tasks())
        assert ClusterSpec.parse(spec.as_tf_config(job, index)) == spec, seed
        if all(list(tasks) == list(range(len(tasks))) for tasks in spec.jobs.values()):
            assert ClusterSpec.parse(spec.as_flag()) == spec, seed


def some_jobs(dice: random.Random) -> dict[str, dict[int, str]]:
    hosts = ["localhost", "10.0.0.1", "[::1]", "[fe80::1%eth0]", "node-a.example", "UPPER_case"]
    endpoints = {f"{dice.choice(hosts)}:{dice.randint(1, 65535)}" for _ in range(dice.randint(1, 20))}
    jobs: dict[str, dict[int, str]] = {}
    names = ["worker", "ps", "chief", "evaluator", "a", "Z_9"]
    for endpoint in sorted(endpoints):
        tasks = jobs.setdefault(dice.choice(names), {})
        index = dice.choice([len(tasks), dice.randint(0, 1000)])
        tasks[index if index not in tasks else max(tasks) + 1] = endpoint
    return jobs


def test_nonsense_is_refused_and_never_a_mistake_of_ours() -> None:
    refused = 0
    for seed in range(500):
        dice = random.Random(seed)
        text = list(dice.choice([FLAG, json.dumps({"cluster": LISTS}), json.dumps({"worker": {"0": "h:1"}})]))
        for _ in range(dice.randint(1, 5)):
            text[dice.randrange(len(text))] = dice.choice('|:;,{}"\0ü9[% ')
        try:
            spec = ClusterSpec.parse("".join(text))
        except InvalidInput as error:
            refused += ", got " in str(error)
        else:
            refused += ClusterSpec.parse(spec.as_dict()) == spec
    assert refused == 500


@pytest.mark.parametrize("name", ["worker", "a", "Ab_9"])
def test_names_of_jobs(name: str) -> None:
    assert check_job_name(name) == name


@pytest.mark.parametrize("name", ["", "9a", "_a", "a b", "a-b", "é", "a\n", None, 1, b"a"])
def test_names_that_are_none(name: Any) -> None:
    with pytest.raises(InvalidInput, match="A job's name") as caught:
        check_job_name(name, "jobs.x")
    assert repr(name) in str(caught.value)
    assert caught.value.field == "jobs.x"


def test_counts_of_tasks() -> None:
    assert check_jobs({"worker": 2, "ps": 1, "chief": 1}) == {"worker": 2, "ps": 1, "chief": 1}
    assert check_jobs({"worker": 10_000}) == {"worker": 10_000}


@pytest.mark.parametrize(
    ("jobs", "field"),
    [
        ({}, "jobs"),
        ([], "jobs"),
        ({"worker": 0}, "jobs.worker"),
        ({"worker": -1}, "jobs.worker"),
        ({"worker": 10_001}, "jobs.worker"),
        ({"worker": True}, "jobs.worker"),
        ({"worker": 1.0}, "jobs.worker"),
        ({"worker": "1"}, "jobs.worker"),
        ({"worker": 1, "chief": 2}, "jobs.chief"),
        ({"a b": 1}, "jobs.a b"),
    ],
)
def test_counts_that_are_none(jobs: Any, field: str) -> None:
    with pytest.raises(InvalidInput, match=", got ") as caught:
        check_jobs(jobs)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("endpoint", "parts"),
    [("h:1", ("h", 1)), ("10.0.0.1:65535", ("10.0.0.1", 65535)), ("[::1]:2222", ("[::1]", 2222))],
)
def test_endpoints(endpoint: str, parts: tuple[str, int]) -> None:
    assert split_endpoint(endpoint) == parts


@pytest.mark.parametrize(
    "endpoint", ["", ":1", "h:", "h", "h:x", "::1:2", "h:1:2", "h :1", "http://h:1", "h:1\n", None, 7]
)
def test_endpoints_that_are_none(endpoint: Any) -> None:
    with pytest.raises(InvalidInput, match="host:port, got ") as caught:
        split_endpoint(endpoint, "here")
    assert caught.value.field == "here"
