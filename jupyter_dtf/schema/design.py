"""Designs, the content of ``.dtf`` files: a cluster, a model, the placement of its layers, and training settings."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import msgspec

from ..errors import InvalidInput, NotFound, Unavailable
from . import text as texts
from .api import Problem
from .arguments import check_integer, check_path
from .base import PeerStruct, Struct, convert, to_plain
from .cluster import default_jobs
from .cluster_request import DEFAULT_KIND, ClusterRequest
from .graph import LayerGraph
from .hosts import HostDesign, TaskPlace
from .placement import Calibration, Placement, Prediction, Slot

VERSION = 1
"""The version of the format that is written."""
SUFFIX = ".dtf"
MAX_TEXT_BYTES = 32 << 20
"""The maximum size of a design as text, in bytes: enough for several hundred thousand layers."""


class ClusterDesign(Struct):
    """The cluster of a design."""

    name: str = ""
    """The name of the cluster; empty: choose an unused name."""
    kind: str = DEFAULT_KIND
    jobs: dict[str, int] = msgspec.field(default_factory=default_jobs)
    options: dict[str, Any] = {}
    """The options of the kind of cluster."""
    hosts: list[HostDesign] = []
    """The hosts in the design; empty: the hosts that the kind provides."""
    tasks: list[TaskPlace] = []


class ModelSource(Struct):
    """The origin of the model, from which it can be read again."""

    kind: str = "none"  # kernel, file, none
    path: str = ""
    """The path of the file, or of the notebook whose kernel has the variable, relative to the server's folder."""
    variable: str = ""


class ModelDesign(Struct):
    """A model, described by its layers."""

    graph: LayerGraph
    source: ModelSource = msgspec.field(default_factory=ModelSource)


class RunSettings(Struct):
    """Settings for training the model."""

    batch_size: int = 64
    """The number of examples per step, over all microbatches and replicas."""
    microbatches: int = 8
    replicas: int = 1
    epochs: int = 1


class Design(Struct):
    """A design: the content of a ``.dtf`` document."""

    version: int = VERSION
    cluster: ClusterDesign = msgspec.field(default_factory=ClusterDesign)
    model: ModelDesign | None = None
    placement: Placement = msgspec.field(default_factory=Placement)
    run: RunSettings = msgspec.field(default_factory=RunSettings)
    calibration: Calibration | None = None
    drawing: dict[str, Any] = {}
    """The state of the designer's view, without effect on the cluster or training: the ids of the model's blocks that
    are ``folded`` or ``unfolded`` contrary to the default. Other keys are kept unchanged."""

    @classmethod
    def parse(cls, text: str) -> Design:
        """Parse a design from a string. Designs in an older format are converted.

        An empty string, such as the contents of a file created with JupyterLab's "New File", is an empty design.
        Contradictions are not rejected here; ``backend.planning.check_design`` finds them.

        Args:
            text: The content of a ``.dtf`` file.

        Returns:
            The design.

        Raises:
            InvalidText: If the text is not JSON, has an unknown field or a value of the wrong type, or was written by a
                newer version. The error has the line and column.
        """
        plain = texts.read(text) if text.strip() else {}
        try:
            return convert(_in_this_version(plain), cls)
        except texts.InvalidText:
            raise
        except InvalidInput as error:
            # In version 0, the fields of the cluster were not below ``cluster``.
            there = _steps(error.field, plain) or _steps(error.field.partition(".")[2], plain)
            line, column = texts.locate(text, there)
            field = re.sub(r"\.(\d+)(?=\.|\Z)", r"[\1]", error.field)
            raise texts.InvalidText(str(error), field=field, line=line, column=column) from None

    @classmethod
    def decode(cls, data: bytes) -> Design:
        """Parse a design from UTF-8 bytes. Raises InvalidText, as ``parse`` does."""
        try:
            return cls.parse(data.decode())
        except UnicodeDecodeError as error:
            raise texts.InvalidText(f"A design must be UTF-8 text: {error}") from None

    def text(self) -> str:
        """Return the design as text, in the canonical form that ``schema.text`` describes.

        Raises:
            InvalidInput: If a value cannot be represented, such as NaN.
        """
        return texts.write(to_plain(self))

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Design:
        """Read a design from a file.

        Args:
            path: The ``.dtf`` file.

        Returns:
            The design.

        Raises:
            NotFound: If the file does not exist.
            Unavailable: If the file cannot be read.
            InvalidText: If the file is not a design. The error has the line and column.
        """
        path = check_path(path, "path")
        try:
            return cls.decode(path.read_bytes())
        except FileNotFoundError:
            raise NotFound(f"There is no design {os.fspath(path)!r}") from None
        except OSError as error:
            raise Unavailable(f"The design cannot be read: {error}") from None
        except texts.InvalidText as error:
            where = f"{os.fspath(path)}, line {error.line}, column {error.column}"
            raise texts.InvalidText(
                f"{where}: {error}", field=error.field, line=error.line, column=error.column
            ) from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the design to a file, atomically.

        Args:
            path: The ``.dtf`` file.

        Raises:
            Unavailable: If the file cannot be written.
        """
        target = check_path(path, "path").resolve()  # a symbolic link is kept
        text = self.text()
        aside = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            aside.write_text(text, encoding="utf-8", newline="\n")
            if target.exists():
                aside.chmod(target.stat().st_mode & 0o777)
            aside.replace(target)
        except OSError as error:
            aside.unlink(missing_ok=True)
            raise Unavailable(f"The design cannot be written: {error}") from None


def version_of(text: str) -> int:
    """Return the format version of a design's text."""
    version: int = _version_of(texts.read(text))
    return version


def _version_of(plain: Any) -> Any:
    return plain.get("version", 0 if plain.keys() & set(ClusterRequest.__struct_fields__) else VERSION)


def _in_this_version(plain: Any) -> Any:
    """Convert a design from an older version to this one. Raises InvalidInput for a newer version."""
    if not isinstance(plain, dict):
        return plain  # rejected later, like any value of the wrong type
    version = check_integer(_version_of(plain), "version", 0)
    if version > VERSION:
        raise InvalidInput(
            f"`version` must be at most {VERSION}, got {version}, which was written by a newer version of jupyter_dtf",
            field="version",
        )
    for older in range(version, VERSION):
        plain = _MIGRATIONS[older](plain)
    return plain


def _from_request(plain: dict[str, Any]) -> dict[str, Any]:
    """Convert version 0, which is a request to start a cluster, as in templates, without the cluster's lifetime."""
    not_drawn = set(ClusterRequest.__struct_fields__) - set(ClusterDesign.__struct_fields__)
    cluster = {key: value for key, value in plain.items() if key not in {"version", *not_drawn}}
    return {"version": 1, "cluster": cluster}


_MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {0: _from_request}
"""For each older version, the function that converts a design to the next version."""

_NUMBER = re.compile(r"\d+(?=\.|\Z)")


def _steps(field: str, plain: Any) -> list[str | int]:
    """Return the keys and indices on the path to an error's field, as far as they exist in the text."""
    steps: list[str | int] = []
    step: str | int
    while field:
        if isinstance(plain, dict):
            fitting = [key for key in plain if key and re.match(rf"{re.escape(key)}(?:\.|\Z)", field)]
            step = max(fitting, key=len, default="")
            length = len(str(step))
        else:
            match = _NUMBER.match(field)
            step, length = (int(match[0]), match.end()) if match else ("", 0)
        there = plain if isinstance(plain, dict) else range(len(plain)) if isinstance(plain, list) else ()
        if not length or step not in there:
            break
        steps.append(step)
        plain = plain[step]
        field = field[length:].removeprefix(".")
    return steps


class DesignProblem(Problem):
    """A problem with one of a design's fields, or with text that could not be parsed."""

    line: int = 0
    """The line, counted from 1 like ``column``; 0 if the problem is with a field."""
    column: int = 0


class DesignReport(Struct):
    """The cluster that a design would create, and the design's problems.

    Ports are 0, because each run chooses its own.
    """

    cluster_spec: dict[str, list[str]] = {}
    tf_config: dict[str, str] = {}
    """TF_CONFIG as a JSON string for each of the first hundred tasks, ``worker:0`` first."""
    devices: dict[str, str] = {}
    """The device on which each task computes, such as ``/job:worker/task:1/device:GPU:0``."""
    problems: list[DesignProblem] = []
    prediction: Prediction | None = None
    text: str = ""
    """The design in the current format, if the text that was checked is in an older one."""


class DescribeRequest(Struct):
    """A model in a file, given by its path below the server's folder."""

    path: str


class ProfileRequest(Struct):
    """A design whose model is in a file, and the cluster on which to measure the model."""

    design: Design
    cluster: str


class LayerPlace(PeerStruct):
    """A layer of a run: the devices on which it was placed, and those on which its operations ran."""

    layer: str
    planned: list[str]
    actual: list[str]


class StepTimes(PeerStruct):
    """The durations of a run's untraced steps, in seconds."""

    count: int
    left_out: int
    """The number of initial steps that are excluded because the model is built, traced and checked in them."""
    median_s: float
    low_s: float
    """The first quartile: a quarter of the steps took less."""
    high_s: float
    """The third quartile: a quarter of the steps took more."""
    batch_size: int = 0
    """The batch size of the run; 0 if unknown."""


class RunPlacement(PeerStruct):
    """The planned and actual devices of a run's layers, and when each device was busy in the last traced step."""

    layers: list[LayerPlace]
    timeline: list[Slot] = []
    step_seconds: float = 0.0
    """The duration of the traced step in seconds; tracing slows it down."""
    steps: StepTimes | None = None
    """None if the run has not completed enough steps yet."""
