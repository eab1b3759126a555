"""Tests of the flags that scripts define, and of the arguments that they get."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from jupyter_dtf.backend.task.script_program import place_arguments
from jupyter_dtf.client.script_run import flags_defined, read
from jupyter_dtf.errors import InvalidInput, NotFound
from jupyter_dtf.schema.cluster import ClusterSpec

SPEC = ClusterSpec({"worker": ["a:1", "b:2"], "ps": ["c:3"]})


@pytest.mark.parametrize(
    ("code", "flags"),
    [
        ('parser.add_argument("--job_name", "-j")', ["job_name"]),
        ('parser.add_argument("-t", "--task-index", type=int)', ["task-index"]),
        ('group.add_argument("script"); print("--job_name")', []),
        ('flags.DEFINE_string("ps_hosts", "", "help")', ["ps_hosts"]),
        ('tf.compat.v1.app.flags.DEFINE_integer(name="task_id", default=0, help="")', ["task_id"]),
        ('DEFINE_integer("task_index", 0, "--job_name")', ["task_index"]),
        ('@click.option("--worker_hosts")\ndef main(): pass', ["worker_hosts"]),
        ('add_argument("--steps")\nadd_argument("--job_name")\nadd_argument("--job_name")', ["steps", "job_name"]),
    ],
)
def test_flags_that_code_defines(code: str, flags: list[str]) -> None:
    assert flags_defined(ast.parse(code)) == flags


def script(tmp_path: Path, source: str) -> str:
    path = tmp_path / "train.py"
    path.write_text(source)
    return str(path)


def test_a_script_gets_the_flags_that_it_asks_for_and_that_are_not_given(tmp_path: Path) -> None:
    source = "".join(
        f'flags.DEFINE_string("{flag}", "", "")\n' for flag in ("job_name", "task_index", "rate", "ps_hosts")
    )
    path = script(tmp_path, source)
    assert read(path).place_flags == ["job_name", "task_index", "ps_hosts"]
    assert read(path, ["--rate", "--job_name=worker", "task_index"]).place_flags == ["task_index", "ps_hosts"]
    assert read(path, ["-ps-hosts", "h:1"]).place_flags == ["job_name", "task_index"]
    assert read(path, ["--rate", "1"]).arguments == ["--rate", "1"]


def test_what_is_no_script_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"'/nowhere/train.py' cannot be read: No such file or directory"):
        read("/nowhere/train.py")
    with pytest.raises(NotFound, match="Is a directory"):
        read(tmp_path)
    with pytest.raises(InvalidInput, match=r"must be Python, got '.*train.py': .*line 2"):
        read(script(tmp_path, "a = 1\nif\n"))
    (tmp_path / "bytes.py").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInput, match="must be Python"):
        read(tmp_path / "bytes.py")


def test_places_are_flags_in_the_scripts_own_spelling() -> None:
    flags = ["job_name", "task-index", "task_id", "ps_hosts", "worker-hosts", "cluster_spec", "chief_hosts"]
    assert place_arguments(flags, SPEC, "worker", 1) == [
        "--job_name=worker",
        "--task-index=1",
        "--task_id=1",
        "--ps_hosts=c:3",
        "--worker-hosts=a:1,b:2",
        "--cluster_spec=worker|a:1;b:2,ps|c:3",
    ]  # no --chief_hosts, because there is no chief
