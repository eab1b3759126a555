"""Jobs, tasks and endpoints: the ClusterSpec in all the forms that TensorFlow has given it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..errors import InvalidInput

JOB_NAME = r"^[a-zA-Z][a-zA-Z0-9_]*$"
"""A job's name: what TensorFlow accepts between "/job:" and "/task:". A regular expression, for one whole line."""
_ENDPOINT = re.compile(r"^(?P<host>\[[0-9a-fA-F:.]+(%[A-Za-z0-9_.\-]+)?\]|[A-Za-z0-9_.\-]+):(?P<port>[0-9]{1,5})\Z")

_JOB = re.compile(JOB_NAME.removesuffix("$"))

MAX_TASKS_PER_JOB = 10_000
USUAL_JOBS = ("worker", "ps", "chief", "evaluator")
"""The jobs in the order in which forms offer them."""
FIRST_JOBS = ("chief", "worker")
"""The jobs that train: ranks count them first, in this order."""
CPU_JOBS = ("ps", "evaluator")
"""Jobs that hold variables or look on: they come last by rank, and get no GPU unless a person gives them one."""


def default_jobs() -> dict[str, int]:
    """The jobs of a cluster, where nothing else is said."""
    return {"worker": 2}


def check_job_name(name: object, field: str = "") -> str:
    """The name of a job: a letter, then letters, digits and underscores."""
    if not isinstance(name, str) or not _JOB.fullmatch(name):
        raise InvalidInput(
            f"A job's name is a letter followed by letters, digits or underscores. Received: {name!r}", field=field
        )
    return name


def check_jobs(jobs: Mapping[str, int], field: str = "jobs") -> dict[str, int]:
    """Counts of tasks per job: at least one job, every count a whole number from 1 to 10,000."""
    if not isinstance(jobs, Mapping):
        raise InvalidInput(f"jobs maps a job's name to its number of tasks. Received: {jobs!r}", field=field)
    if not jobs:
        raise InvalidInput("A cluster needs at least one job. Received: {}", field=field)
    for name, count in jobs.items():
        check_job_name(name, f"{field}.{name}")
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_TASKS_PER_JOB:
            raise InvalidInput(
                f"A job has a whole number of tasks, from 1 to {MAX_TASKS_PER_JOB}. Received: {name}={count!r}",
                field=f"{field}.{name}",
            )
    if jobs.get("chief", 0) > 1:
        raise InvalidInput(f"The job chief has one task. Received: {jobs['chief']}", field=f"{field}.chief")
    return dict(jobs)


def as_jobs(jobs: Mapping[str, int] | int) -> dict[str, int]:
    """``jobs`` as it may be written: a number is one of workers. Raises InvalidInput."""
    if isinstance(jobs, Mapping):
        return check_jobs(jobs)
    if isinstance(jobs, bool) or not isinstance(jobs, int):
        raise InvalidInput(
            f"`jobs` must map a job's name to its number of tasks, or be a number of workers, got {jobs!r:.100}",
            field="jobs",
        )
    return check_jobs({"worker": jobs})


def split_endpoint(endpoint: str, field: str = "") -> tuple[str, int]:
    """Host and port of ``host:port``; an IPv6 address stands in brackets."""
    match = _ENDPOINT.match(endpoint) if isinstance(endpoint, str) else None
    if match is None:
        raise InvalidInput(f"An endpoint is host:port. Received: {endpoint!r}", field=field)
    port = int(match["port"])
    if not 1 <= port <= 65_535:
        raise InvalidInput(f"A port is a number from 1 to 65535. Received: {endpoint!r}", field=field)
    return match["host"], port


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise InvalidInput(f"A job or a task index appears once. Received {key!r} twice")
        result[key] = value
    return result


class ClusterSpec:
    """Which endpoint serves which task of which job. Immutable; equal when all endpoints are equal.

    ``jobs`` maps a job's name to ``{task index: "host:port"}``; indices may be sparse.
    """

    __slots__ = ("_jobs",)

    def __init__(self, jobs: Mapping[str, Mapping[int, str] | Iterable[str]]) -> None:
        if not isinstance(jobs, Mapping) or not jobs:
            raise InvalidInput(f"A ClusterSpec maps job names to endpoints and has at least one. Received: {jobs!r}")
        checked: dict[str, dict[int, str]] = {}
        seen: dict[str, str] = {}
        for name, tasks in jobs.items():
            check_job_name(name, str(name))
            checked[name] = dict(sorted(_numbered(name, tasks)))
            if not checked[name]:
                raise InvalidInput(f"A job has at least one task. Received: {name!r} with none", field=name)
            for index, endpoint in checked[name].items():
                where = f"{name}.{index}"
                split_endpoint(endpoint, where)
                if endpoint in seen:
                    raise InvalidInput(
                        f"An endpoint is one task's. Received {endpoint!r} for {seen[endpoint]} and {name}:{index}",
                        field=where,
                    )
                seen[endpoint] = f"{name}:{index}"
        self._jobs = checked

    @classmethod
    def parse(cls, value: Any) -> ClusterSpec:
        """Read any form a ClusterSpec has had.

        The flag string of 2016 (``worker|h:2222;h:2223,ps|h:2221``), a dict of lists or of ``{index: endpoint}``,
        a TF_CONFIG as JSON text or dict, a ``tf.train.ClusterSpec``, or a ClusterSpec.
        Raises InvalidInput with the rule and the value received.
        """
        if isinstance(value, ClusterSpec):
            return value
        if isinstance(value, str):
            text = value.strip()
            if text.startswith("{"):
                try:
                    return cls.parse(json.loads(text, object_pairs_hook=_unique_keys))
                except json.JSONDecodeError as error:
                    raise InvalidInput(f"TF_CONFIG is JSON: {error}. Received: {value!r:.200}") from None
            return cls(_parse_flag(text))
        if isinstance(value, Mapping):
            inner = value.get("cluster")
            if isinstance(inner, Mapping) and not set(value) - {"cluster", "task", "environment", "job", "rpc_layer"}:
                return cls(inner)
            return cls(value)
        if hasattr(value, "as_dict") and hasattr(value, "job_tasks"):  # tf.train.ClusterSpec, without importing TF
            return cls(value.as_dict())
        raise InvalidInput(
            "A ClusterSpec is read from a flag string, a dict, TF_CONFIG or a tf.train.ClusterSpec. "
            f"Received: {value!r:.200}"
        )

    @property
    def jobs(self) -> dict[str, dict[int, str]]:
        """``{job: {task index: endpoint}}``, indices ascending."""
        return {name: dict(tasks) for name, tasks in self._jobs.items()}

    def tasks(self) -> Iterator[tuple[str, int, str]]:
        """Every (job, task index, endpoint), jobs in their order."""
        for name, tasks in self._jobs.items():
            for index, endpoint in tasks.items():
                yield name, index, endpoint

    def endpoint(self, job: str, index: int) -> str:
        """The endpoint of one task. Raises InvalidInput if the spec has no such task."""
        try:
            return self._jobs[job][index]
        except KeyError:
            raise InvalidInput(f"The task is one of {self.as_flag()!r}. Received: {job}:{index}") from None

    def as_dict(self) -> dict[str, list[str] | dict[int, str]]:
        """A dict of lists; a job with sparse indices stays a dict of indices, as in ``tf.train.ClusterSpec``."""
        return {
            name: list(tasks.values()) if list(tasks) == list(range(len(tasks))) else dict(tasks)
            for name, tasks in self._jobs.items()
        }

    def as_flag(self) -> str:
        """The flag string ``worker|h:2222;h:2223,ps|h:2221``. Raises InvalidInput for sparse indices."""
        for name, tasks in self._jobs.items():
            if list(tasks) != list(range(len(tasks))):
                raise InvalidInput(
                    f"The flag form has no sparse indices. Received: {name} with tasks {list(tasks)}", field=name
                )
        return ",".join(f"{name}|{';'.join(tasks.values())}" for name, tasks in self._jobs.items())

    def as_tf_config(self, job: str, index: int) -> str:
        """The TF_CONFIG of one task, as JSON text."""
        self.endpoint(job, index)
        return json.dumps({"cluster": self.as_dict(), "task": {"type": job, "index": index}})

    def as_tf(self) -> Any:
        """The same as a ``tf.train.ClusterSpec``; needs TensorFlow."""
        import tensorflow as tf

        return tf.train.ClusterSpec(self.as_dict())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClusterSpec) and self._jobs == other._jobs

    def __hash__(self) -> int:
        return hash(tuple(self.tasks()))

    def __repr__(self) -> str:
        return f"ClusterSpec({self.as_dict()!r})"


def _numbered(name: str, tasks: Mapping[int, str] | Iterable[str]) -> Iterator[tuple[int, str]]:
    if isinstance(tasks, str) or not isinstance(tasks, (Mapping, list, tuple)):
        raise InvalidInput(
            f"A job's tasks are a list of endpoints or a dict of index to endpoint. Received: {tasks!r}", field=name
        )
    pairs = tasks.items() if isinstance(tasks, Mapping) else enumerate(tasks)
    seen: set[int] = set()
    for key, endpoint in pairs:
        text = str(key)
        if isinstance(key, bool) or not re.fullmatch(r"-?[0-9]+", text) or int(text) < 0:
            raise InvalidInput(f"A task index is a whole number from 0. Received: {key!r}", field=name)
        index = int(text)
        if index in seen:
            raise InvalidInput(f"A task index appears once in a job. Received {index} twice in {name!r}", field=name)
        seen.add(index)
        yield index, endpoint


def _parse_flag(text: str) -> dict[str, list[str]]:
    jobs: dict[str, list[str]] = {}
    for part in text.split(","):
        name, bar, endpoints = part.strip().partition("|")
        if not bar:
            raise InvalidInput(f"The flag form is job|host:port;host:port,job|host:port. Received: {text!r:.200}")
        if name in jobs:
            raise InvalidInput(f"A job appears once. Received {name!r} twice in {text!r:.200}", field=name)
        jobs[name] = [e.strip() for e in endpoints.split(";")] if endpoints.strip() else []
    return jobs
