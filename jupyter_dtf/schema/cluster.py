"""Jobs, tasks and endpoints: ClusterSpec, which reads and writes all forms that TensorFlow has used over time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..errors import InvalidInput
from .arguments import is_integer, plain

JOB_NAME = r"^[a-zA-Z][a-zA-Z0-9_]*$"
"""A regular expression that matches valid job names, which TensorFlow accepts between "/job:" and "/task:"."""
_ENDPOINT = re.compile(r"^(?P<host>\[[0-9a-fA-F:.]+(%[A-Za-z0-9_.\-]+)?\]|[A-Za-z0-9_.\-]+):(?P<port>[0-9]{1,5})\Z")

_JOB = re.compile(JOB_NAME.removesuffix("$"))

MAX_TASKS_PER_JOB = 10_000
USUAL_JOBS = ("worker", "ps", "chief", "evaluator")
"""The jobs that forms offer, in this order."""
FIRST_JOBS = ("chief", "worker")
"""The jobs that train. Their tasks have the lowest ranks, in this order of jobs."""
CPU_JOBS = ("ps", "evaluator")
"""Jobs that hold variables or only evaluate: they have the highest ranks, and no GPU unless the user assigns one."""


def default_jobs() -> dict[str, int]:
    """Return the default jobs of a cluster."""
    return {"worker": 2}


def check_job_name(name: object, field: str = "") -> str:
    """Validate the name of a job, and return it: a letter, followed by letters, digits and underscores."""
    if not isinstance(name, str) or not _JOB.fullmatch(name):
        raise InvalidInput(
            f"A job's name must be a letter followed by letters, digits or underscores, got {name!r}", field=field
        )
    return name


def check_jobs(jobs: Mapping[str, int], field: str = "jobs") -> dict[str, int]:
    """Validate jobs and their numbers of tasks, and return them as a dict. Raises InvalidInput.

    There must be at least one job, each with 1 to 10,000 tasks. The job ``chief`` must have one task.
    """
    if not isinstance(jobs, Mapping):
        raise InvalidInput(f"`jobs` must map job names to numbers of tasks, got {jobs!r}", field=field)
    checked: dict[str, int] = plain(dict(jobs))
    if not checked:
        raise InvalidInput("A cluster must have at least one job, got {}", field=field)
    for name, count in checked.items():
        check_job_name(name, f"{field}.{name}")
        if not is_integer(count) or not 1 <= count <= MAX_TASKS_PER_JOB:
            raise InvalidInput(
                f"The number of tasks of a job must be an integer from 1 to {MAX_TASKS_PER_JOB}, got {name}={count!r}",
                field=f"{field}.{name}",
            )
    if checked.get("chief", 0) > 1:
        raise InvalidInput(f"The job chief must have one task, got {checked['chief']}", field=f"{field}.chief")
    return checked


def as_jobs(jobs: Mapping[str, int] | int) -> dict[str, int]:
    """Convert the argument ``jobs=``, in which a number means that many workers. Raises InvalidInput."""
    if isinstance(jobs, Mapping):
        return check_jobs(jobs)
    if not is_integer(jobs):
        raise InvalidInput(
            f"`jobs` must map job names to numbers of tasks, or be a number of workers, got {jobs!r:.100}",
            field="jobs",
        )
    return check_jobs({"worker": jobs})


def split_endpoint(endpoint: str, field: str = "") -> tuple[str, int]:
    """Split ``host:port`` into host and port. An IPv6 address must be in brackets."""
    match = _ENDPOINT.match(endpoint) if isinstance(endpoint, str) else None
    if match is None:
        raise InvalidInput(f"An endpoint must be host:port, got {endpoint!r}", field=field)
    port = int(match["port"])
    if not 1 <= port <= 65_535:
        raise InvalidInput(f"A port must be a number from 1 to 65535, got {endpoint!r}", field=field)
    return match["host"], port


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise InvalidInput(f"A job or a task index must appear only once, got {key!r} twice")
        result[key] = value
    return result


class ClusterSpec:
    """The endpoints of the tasks of a cluster. Immutable; two specs are equal if all their endpoints are equal.

    Args:
        jobs: For each job, ``{task index: "host:port"}`` (indices may be sparse) or a list of endpoints.

    Raises:
        InvalidInput: If a job name, task index or endpoint is invalid.

    Example:
        >>> spec = dtf.ClusterSpec.parse("worker|host:2222;host:2223,ps|host:2221")
        >>> spec.endpoint("worker", 1)
        'host:2223'
    """

    __slots__ = ("_jobs",)

    def __init__(self, jobs: Mapping[str, Mapping[int, str] | Iterable[str]]) -> None:
        if not isinstance(jobs, Mapping) or not jobs:
            raise InvalidInput(f"A ClusterSpec must map at least one job name to endpoints, got {jobs!r}")
        checked: dict[str, dict[int, str]] = {}
        seen: dict[str, str] = {}
        for name, tasks in jobs.items():
            check_job_name(name, str(name))
            checked[name] = dict(sorted(_numbered(name, tasks)))
            if not checked[name]:
                raise InvalidInput(f"A job must have at least one task, got none for {name!r}", field=name)
            for index, endpoint in checked[name].items():
                where = f"{name}.{index}"
                split_endpoint(endpoint, where)
                if endpoint in seen:
                    raise InvalidInput(
                        f"Endpoints must be unique, got {endpoint!r} for {seen[endpoint]} and {name}:{index}",
                        field=where,
                    )
                seen[endpoint] = f"{name}:{index}"
        self._jobs = checked

    @classmethod
    def parse(cls, value: Any) -> ClusterSpec:
        """Read a cluster spec in any form.

        Args:
            value: A flag string (``"worker|h:2222;h:2223,ps|h:2221"``), a dict of lists or of ``{index: endpoint}``,
                TF_CONFIG as a JSON string or a dict, a ``tf.train.ClusterSpec``, or a ``ClusterSpec``.

        Returns:
            The cluster spec.

        Raises:
            InvalidInput: If the value has none of these forms.
        """
        if isinstance(value, ClusterSpec):
            return value
        if isinstance(value, str):
            text = value.strip()
            if text.startswith("{"):
                try:
                    return cls.parse(json.loads(text, object_pairs_hook=_unique_keys))
                except json.JSONDecodeError as error:
                    raise InvalidInput(f"TF_CONFIG must be JSON ({error}), got {value!r:.200}") from None
            return cls(_parse_flag(text))
        if isinstance(value, Mapping):
            inner = value.get("cluster")
            if isinstance(inner, Mapping) and not set(value) - {"cluster", "task", "environment", "job", "rpc_layer"}:
                return cls(inner)
            return cls(value)
        if hasattr(value, "as_dict") and hasattr(value, "job_tasks"):  # tf.train.ClusterSpec, without importing TF
            return cls(value.as_dict())
        raise InvalidInput(
            "A ClusterSpec must be given as a flag string, a dict, TF_CONFIG or a tf.train.ClusterSpec, got "
            f"{value!r:.200}"
        )

    @property
    def jobs(self) -> dict[str, dict[int, str]]:
        """``{job: {task index: endpoint}}``, with ascending indices."""
        return {name: dict(tasks) for name, tasks in self._jobs.items()}

    def tasks(self) -> Iterator[tuple[str, int, str]]:
        """Iterate over ``(job, task index, endpoint)``, in the order of the jobs."""
        for name, tasks in self._jobs.items():
            for index, endpoint in tasks.items():
                yield name, index, endpoint

    def endpoint(self, job: str, index: int) -> str:
        """Look up the endpoint of a task.

        Args:
            job: The name of the job.
            index: The index of the task within the job.

        Returns:
            The endpoint, ``host:port``.

        Raises:
            InvalidInput: If there is no such task.
        """
        try:
            return self._jobs[job][index]
        except KeyError:
            raise InvalidInput(f"The task must be one of {self.as_flag()!r}, got {job}:{index}") from None

    def as_dict(self) -> dict[str, list[str] | dict[int, str]]:
        """Return ``{job: [endpoint, ...]}``.

        As in ``tf.train.ClusterSpec``, a job with sparse task indices has ``{index: endpoint}`` instead of a list.
        """
        return {
            name: list(tasks.values()) if list(tasks) == list(range(len(tasks))) else dict(tasks)
            for name, tasks in self._jobs.items()
        }

    def as_flag(self) -> str:
        """Return the spec as a flag string, ``worker|h:2222;h:2223,ps|h:2221``.

        Raises:
            InvalidInput: If task indices are sparse.
        """
        for name, tasks in self._jobs.items():
            if list(tasks) != list(range(len(tasks))):
                raise InvalidInput(
                    f"Task indices must not be sparse in a flag string, got {name} with tasks {list(tasks)}", field=name
                )
        return ",".join(f"{name}|{';'.join(tasks.values())}" for name, tasks in self._jobs.items())

    def as_tf_config(self, job: str, index: int) -> str:
        """Return the TF_CONFIG of one task.

        Args:
            job: The name of the job.
            index: The index of the task within the job.

        Returns:
            A JSON string.
        """
        self.endpoint(job, index)
        return json.dumps({"cluster": self.as_dict(), "task": {"type": job, "index": index}})

    def as_tf(self) -> Any:
        """Return the spec as a ``tf.train.ClusterSpec``. Requires TensorFlow."""
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
            f"A job's tasks must be a list of endpoints or a dict from index to endpoint, got {tasks!r}", field=name
        )
    pairs = tasks.items() if isinstance(tasks, Mapping) else enumerate(tasks)
    seen: set[int] = set()
    for key, endpoint in pairs:
        text = str(key)
        if isinstance(key, bool) or not re.fullmatch(r"-?[0-9]+", text) or int(text) < 0:
            raise InvalidInput(f"A task index must be an integer >= 0, got {key!r}", field=name)
        index = int(text)
        if index in seen:
            raise InvalidInput(f"Task indices of a job must be unique, got {index} twice in {name!r}", field=name)
        seen.add(index)
        yield index, endpoint


def _parse_flag(text: str) -> dict[str, list[str]]:
    jobs: dict[str, list[str]] = {}
    for part in text.split(","):
        name, bar, endpoints = part.strip().partition("|")
        if not bar:
            raise InvalidInput(f"The flag string must be job|host:port;host:port,job|host:port, got {text!r:.200}")
        if name in jobs:
            raise InvalidInput(f"A job must appear only once, got {name!r} twice in {text!r:.200}", field=name)
        jobs[name] = [e.strip() for e in endpoints.split(";")] if endpoints.strip() else []
    return jobs
