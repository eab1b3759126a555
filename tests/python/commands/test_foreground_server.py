"""Tests of ``jupyter dtf server``: which task it is, and two servers in separate processes that serve a client."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from jupyter_dtf import cli
from jupyter_dtf.commands.foreground_server import find_task
from jupyter_dtf.errors import InvalidInput

from ..patience import left_s

COMMAND = [sys.executable, "-m", "jupyter_dtf.cli", "server"]
SPEC = "worker|localhost:2222;localhost:2223,ps|localhost:2221"


def test_its_place_in_the_cluster() -> None:
    assert find_task(SPEC, "worker", 1)[1:] == ("worker", 1)
    assert find_task(SPEC, "ps")[1:] == ("ps", 0)
    assert find_task("local|localhost:2222")[1:] == ("local", 0)
    assert find_task("worker|localhost:2222", task_index=0)[1:] == ("worker", 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((SPEC,), "--job_name must be one of worker, ps, got none"),
        ((SPEC, "worker", 2), "got worker:2"),
        ((SPEC, "chief"), "got chief:0"),
        (("worker|localhost:2222", "worker", -1), "got worker:-1"),
        (("worker|localhost",), "An endpoint must be host:port, got 'localhost'"),
    ],
)
def test_a_place_that_is_not_there(arguments: tuple[str, str, int], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        find_task(*arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--cluster_spec=worker|localhost"],
        [f"--cluster_spec={SPEC}"],
        ["--cluster_spec", "local", "--gpu_memory_fraction=2"],
    ],
    ids=" ".join,
)
def test_what_is_wrong_is_one_line_and_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["server", *arguments]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.startswith("jupyter dtf: error: ")
    assert found.err.count("\n") == 1


@contextlib.contextmanager
def server(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Start a server in a separate process, and kill it at the end of the block if it is still running."""
    with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def target_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@contextlib.contextmanager
def free_ports(count: int) -> Iterator[list[int]]:
    """Reserve ports until the end of the block: only sockets with ``SO_REUSEPORT`` can also be bound to them."""
    with contextlib.ExitStack() as held:
        ports = []
        for _ in range(count):
            holder = held.enter_context(socket.socket())
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            holder.bind(("", 0))
            ports.append(holder.getsockname()[1])
        yield ports


@pytest.mark.slow
def test_two_of_them_serve_a_client_and_end_when_they_are_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    import tensorflow as tf

    monkeypatch.setenv("TF_GRPC_REUSE_PORT", "1")
    with free_ports(2) as (one, two), contextlib.ExitStack() as running:
        spec = f"--cluster_spec=worker|localhost:{one};localhost:{two}"
        first = running.enter_context(server(spec, "--job_name=worker", "--task_index=0"))
        second = running.enter_context(server(spec, "--job_name", "worker", "--task_id", "1"))
        assert target_of(first) == f"grpc://localhost:{one}"
        assert target_of(second) == f"grpc://localhost:{two}"
        with tf.Graph().as_default():
            x = tf.compat.v1.placeholder(tf.float32, ())
            with tf.device("/job:worker/task:1"):
                y = x * 2.0
            metadata = tf.compat.v1.RunMetadata()
            options = tf.compat.v1.RunOptions(output_partition_graphs=True)
            with tf.compat.v1.Session(f"grpc://localhost:{one}") as client:
                assert client.run(y, {x: 3.0}, options=options, run_metadata=metadata) == 6.0
        devices = {node.device for part in metadata.partition_graphs for node in part.node if node.op == "Mul"}
        assert devices == {"/job:worker/replica:0/task:1/device:CPU:0"}

        first.send_signal(signal.SIGINT)
        second.send_signal(signal.SIGTERM)
        assert (first.wait(left_s()), second.wait(left_s())) == (0, 0)


@pytest.mark.slow
def test_a_local_cluster_needs_no_place_and_a_taken_port_is_said() -> None:
    import tensorflow as tf

    with server("--cluster_spec=local") as process:
        target = target_of(process)
        with tf.Graph().as_default(), tf.compat.v1.Session(target) as client:
            assert client.run(tf.constant(1) + 1) == 2
        port = target.rsplit(":", 1)[1]
        with server(f"--cluster_spec=local|localhost:{port}") as refused:
            _, error = refused.communicate(timeout=left_s())
            assert refused.returncode == 1
            assert f"jupyter dtf: error: TensorFlow's server cannot start at localhost:{port}: " in error
