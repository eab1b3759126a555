"""Only the user of a run can connect to the ports of its tasks, tested by the attempts of others."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest

import jupyter_dtf as dtf
from jupyter_dtf.backend.records.hub import Hub
from jupyter_dtf.backend.task.ports import guarded_port
from jupyter_dtf.client.session import session
from jupyter_dtf.schema.events import Note
from jupyter_dtf.schema.run import TaskState

from .. import lacking
from ..patience import left_s
from . import strangers
from .strangers import OTHER_UID, assert_only_its_user_gets_in, is_answer, listeners, speak, tasks

pytestmark = pytest.mark.module_directories
cloudpickle.register_pickle_by_value(sys.modules[__name__])
cloudpickle.register_pickle_by_value(strangers)

as_another_user = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")


@pytest.fixture(scope="module")
def cluster(no_process_left_by_module: None) -> Iterator[dtf.Cluster]:
    with dtf.Cluster(jobs={"worker": 2, "ps": 1}, name="ports") as made:
        yield made
    session().close()


def network() -> Any:
    import keras

    model = keras.Sequential(
        [keras.Input((8,)), keras.layers.Dense(8, name="hidden"), keras.layers.Dense(1, name="out")]
    )
    model.compile(keras.optimizers.SGD(0.01), "mse")
    return model


@contextlib.contextmanager
def training(cluster: dtf.Cluster, strategy: Any, jobs: dict[str, int]) -> Iterator[dtf.Run]:
    """Run a training until the end of the context."""
    x = np.ones((64, 8), np.float32)
    run = cluster.fit(network(), x, x[:, :1], strategy=strategy, jobs=jobs, epochs=100_000, wait=False)
    info = run.wait_for(lambda info: info.state.is_final or "loss" in info.latest, left_s())
    assert not info.state.is_final, info
    yield run
    run.stop()
    run.wait()


def warnings(run: dtf.Run, hub: Hub | None = None) -> list[str]:
    return [
        event.title
        for _seq, event in (hub or session().hub).events(run.id)
        if isinstance(event, Note) and event.level == "warning"
    ]


def ports_of(run: dtf.Run) -> set[int]:
    return {listener.port for listener in listeners(tasks(run.info))}


SERVING = {
    "in-graph": dtf.InGraph(),
    "pipeline": dtf.Pipeline({"hidden": "/job:worker/task:0/device:CPU:0", "out": "/job:worker/task:1/device:CPU:0"}),
    "ring": dtf.AllReduce(transport="ring"),
}


@as_another_user
@pytest.mark.parametrize("strategy", SERVING.values(), ids=SERVING.keys())
def test_a_training_with_servers_takes_only_its_users_connections(cluster: dtf.Cluster, strategy: Any) -> None:
    with training(cluster, strategy, {"worker": 2}) as run:
        ports = ports_of(run)
        assert ports == {int(task.endpoint.rpartition(":")[2]) for task in run.info.tasks}
        assert warnings(run) == []
        assert_only_its_user_gets_in(ports)
        hub = session().hub
        run.wait_for(lambda _: f"(uid {OTHER_UID})" in "".join(warnings(run, hub)), left_s())


@as_another_user
def test_servers_take_only_their_users_connections(cluster: dtf.Cluster) -> None:
    with cluster.servers({"worker": 2}) as servers:
        ports = ports_of(servers.run)
        assert ports == {int(task.endpoint.rpartition(":")[2]) for task in servers.run.info.tasks}
        assert_only_its_user_gets_in(ports)


def own_ports() -> set[int]:
    """Return the ports on which this process itself listens."""
    return {listener.port for listener in listeners([os.getpid()]) if listener.pid == os.getpid()}


@as_another_user
def test_what_a_client_listens_on_is_its_own(cluster: dtf.Cluster) -> None:
    """Connecting starts a server in this process, which TensorFlow never ends."""
    before = own_ports()
    with cluster.servers({"worker": 1}) as servers:
        servers.connect()
        connected = own_ports() - before
        assert len(connected) == 1
        assert_only_its_user_gets_in(connected)
    doors = [("127.0.0.1", port, 0) for port in own_ports() - before]
    assert len(doors) == 2  # disconnecting has started another server
    for uid in (OTHER_UID, os.getuid()):  # the servers are no longer needed
        assert speak(doors, uid, patience_s=1) == ["TimeoutError", "TimeoutError"]


def own_servers(args: Any, ctx: Any) -> None:
    """Start a task's own server in the cluster, and a local one, with TensorFlow's own classes."""
    import tensorflow as tf

    tf.distribute.Server(ctx.cluster_spec.as_tf(), ctx.job_name, ctx.task_index)
    tf.distribute.Server.create_local_server()
    ctx.server  # noqa: B018
    tf.distribute.Server.join(None)


@as_another_user
def test_servers_that_a_program_starts_take_only_its_users_connections(cluster: dtf.Cluster) -> None:
    run = cluster.run(own_servers, jobs={"worker": 2}, wait=False)
    info = run.wait_for(
        lambda info: (
            info.state.is_final or (bool(info.tasks) and all(task.state is TaskState.SERVING for task in info.tasks))
        ),
        left_s(),
    )
    assert not info.state.is_final, info
    ports = ports_of(run)
    assert len(ports) == 4
    assert_only_its_user_gets_in(ports)
    run.stop()
    run.wait()


@pytest.mark.parametrize(
    ("strategy", "jobs"),
    [
        (dtf.AllReduce(), {"worker": 2}),
        (dtf.ParameterServer(), {"worker": 2, "ps": 1}),
        (dtf.InGraph(), {"worker": 1}),
    ],
    ids=["all-reduce", "parameter servers", "in-graph in one task"],
)
def test_what_needs_no_server_listens_on_nothing(cluster: dtf.Cluster, strategy: Any, jobs: dict[str, int]) -> None:
    with training(cluster, strategy, jobs) as run:
        assert listeners(tasks(run.info)) == set()
        assert warnings(run) == []


@as_another_user
def test_exchanges_by_tcp_take_only_their_runs_connections(cluster: dtf.Cluster) -> None:
    """They listen only at the cluster's address, not on TensorFlow's ports, and reject even their own user."""
    with training(cluster, dtf.AllReduce(transport="tcp"), {"worker": 2}) as run:
        found = listeners(tasks(run.info))
        assert {listener.address for listener in found} == {"127.0.0.1"}
        assert len(found) == 2
        assert not {listener.port for listener in found} & {
            int(task.endpoint.rpartition(":")[2]) for task in run.info.tasks
        }
        assert warnings(run) == []
        doors = [("127.0.0.1", port, 0) for port in ports_of(run)]
        for uid in (OTHER_UID, os.getuid()):
            assert not any(map(is_answer, speak(doors, uid)))
        hub = session().hub
        turned_away = {f"A connection from 127.0.0.1 to worker:{index} was rejected" for index in range(2)}
        run.wait_for(lambda _: set(warnings(run, hub)) == turned_away, left_s())
        assert not run.info.state.is_final


def test_a_program_that_starts_no_server_listens_on_nothing(cluster: dtf.Cluster) -> None:
    def look(args: Any, ctx: Any) -> int:
        dtf.barrier()
        return len(listeners([os.getpid()]))

    assert cluster.run(look, jobs={"worker": 2}).result() == [0, 0]


HERE, THERE = ("198.18.77.1", "fd00:77::1"), ("198.18.77.2", "fd00:77::2")
"""The addresses of this machine and of the other one on the link between them."""


@pytest.fixture
def another_machine() -> Iterator[tuple[str, ...]]:
    """A network namespace connected to this one. Yields the words of a command that runs a program there."""
    ip = shutil.which("ip")
    if os.getuid() != 0 or ip is None:
        lacking.skip("only root can make a network namespace, with the program ip")
    name, here, there = f"dtf{os.getpid()}", f"dtfh{os.getpid() % 100_000}", f"dtft{os.getpid() % 100_000}"

    def call(*arguments: str) -> None:
        subprocess.run([ip, *arguments], check=True, capture_output=True)

    call("netns", "add", name)
    try:
        call("link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
        for namespace, device, addresses in (((), here, HERE), (("-n", name), there, THERE)):
            call(*namespace, "link", "set", device, "up")
            for address in addresses:
                call(*namespace, "addr", "add", f"{address}/{64 if ':' in address else 30}", "dev", device, "nodad")
        yield ip, "netns", "exec", name
    finally:
        call("netns", "del", name)


def test_nobody_gets_in_from_another_machine(cluster: dtf.Cluster, another_machine: tuple[str, ...]) -> None:
    """Not even root on the other machine gets in, since its processes are not on this machine."""
    with cluster.servers({"worker": 2}) as servers:
        doors = [(address, port, 0) for port in ports_of(servers.run) for address in HERE]
        assert all(map(is_answer, speak(doors, os.getuid())))  # these addresses work from this machine
        assert not any(map(is_answer, speak(doors, os.getuid(), another_machine)))
    with cluster.servers({"worker": 1}, clients=THERE) as servers:  # unless that machine was named
        assert warnings(servers.run) == ["TensorFlow's servers can be used from other machines"]
        doors = [(address, port, 0) for port in ports_of(servers.run) for address in HERE]
        assert all(map(is_answer, speak(doors, os.getuid(), another_machine)))
        assert not any(map(is_answer, speak(doors)))


WITHOUT_PRIVILEGES = """
import ctypes, os, sys

for capability in range(64):
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP: what is run next has none of them
os.execv(sys.executable, [sys.executable, "-c", sys.argv[1]])
"""
PROGRAM = """
import sys
import jupyter_dtf as dtf
import tensorflow as tf

held = [line for line in open("/proc/self/status") if line.startswith("CapEff")]
with dtf.Cluster(jobs={"worker": 2}) as cluster, cluster.servers() as servers:
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, ())
        with tf.device("/job:worker/task:1"):
            y = x + 1
    with tf.compat.v1.Session(servers.target, graph=graph) as client:
        ports = [task.endpoint.rpartition(":")[2] for task in servers.run.info.tasks]
        print(int(held[0].split()[1], 16), int(client.run(y, {x: 1})), *ports, flush=True)
        sys.stdin.read()
"""


@as_another_user
def test_it_needs_no_privileges() -> None:
    """The cluster belongs to a user who has none, not even those to use namespaces."""
    with subprocess.Popen(
        [sys.executable, "-c", WITHOUT_PRIVILEGES, PROGRAM],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as theirs:
        assert theirs.stdout is not None
        privileges, value, *ports = (int(word) for word in theirs.stdout.readline().split())
        assert (privileges, value, len(ports)) == (0, 2, 2)
        doors = [("127.0.0.1", port, 0) for port in ports]
        assert all(map(is_answer, speak(doors, os.getuid())))
        assert not any(map(is_answer, speak(doors)))
        theirs.communicate(timeout=left_s())
    assert theirs.returncode == 0


def test_this_system_can_guard_ports() -> None:
    assert guarded_port.why_not() == ""


REFUSING = """
import socket

def refused(self, level, option, *value):
    if (level, option) == (socket.SOL_SOCKET, 51):
        raise OSError(92, "Protocol not available")
    return before(self, level, option, *value)

before = socket.socket.setsockopt
socket.socket.setsockopt = refused
"""
"""Makes every Python process see a kernel that cannot direct connections."""


def test_where_the_system_refuses_it_is_said_before_the_start(
    no_process_left_by_module: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(REFUSING)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    with dtf.Cluster(jobs={"worker": 2}, name="refused") as cluster:
        with cluster.servers() as servers:
            assert warnings(servers.run) == ["Anyone who can reach this machine can use TensorFlow's servers"]
        (warning,) = cluster.info.warnings
        assert "others can use TensorFlow's servers: the kernel cannot direct connections (Protocol not" in warning
        with training(cluster, dtf.AllReduce(), {"worker": 2}) as run:
            assert warnings(run) == []
