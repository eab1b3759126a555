from __future__ import annotations

import os
import stat
import time

import pytest

from jupyter_dtf.backend.viewer import connections
from jupyter_dtf.backend.viewer.connections import Connection
from jupyter_dtf.errors import Conflict, InvalidInput, NotFound
from jupyter_dtf.schema.api import ClusterState


def connection(name: str = "digits", pid: int | None = None) -> Connection:
    made = Connection(
        name=name,
        kind="local",
        state=ClusterState.RUNNING,
        pid=0,
        pid_created=0.0,
        created=time.time(),
        jobs={"worker": 2},
        key="secret",
    )
    made.is_of(pid or os.getpid())
    return made


def test_a_connection_file_comes_back_and_is_its_owners_alone() -> None:
    mine = connection()
    connections.reserve(mine)
    assert connections.read("digits") == mine
    assert connections.read_all() == {"digits": mine}
    path = connections.path_of("digits")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    mine.address = "tls://127.0.0.1:1"
    connections.write(mine)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert connections.read("digits").address == "tls://127.0.0.1:1"


def test_a_live_cluster_keeps_its_name_and_a_dead_one_gives_it_up() -> None:
    connections.reserve(connection())
    with pytest.raises(Conflict, match="'digits', which exists"):
        connections.reserve(connection())
    dead = connections.read("digits")
    dead.pid_started -= 1  # the same process id, but another process
    connections.write(dead)
    assert not connections.read("digits").is_alive
    connections.reserve(connection())
    assert connections.read("digits").is_alive


def test_a_cluster_lives_on_when_the_clock_is_set() -> None:
    mine = connection()
    mine.pid_created += 3600  # as another process sees it from now on
    assert mine.is_alive


def test_a_file_of_a_version_that_knew_the_clock_alone() -> None:
    mine = connection()
    mine.pid_started = 0
    assert mine.is_alive
    mine.pid_created -= 100
    assert not mine.is_alive


def test_what_cannot_be_read_is_no_cluster() -> None:
    connections.path_of("broken").write_text("{")
    assert connections.read_all() == {}
    with pytest.raises(NotFound, match="no cluster named"):
        connections.read("broken")
    with pytest.raises(InvalidInput, match="got '../x'"):
        connections.path_of("../x")


def test_a_free_name_is_free() -> None:
    assert connections.free_name("local") == "local-1"
    connections.reserve(connection("local-1"))
    assert connections.free_name("local") == "local-2"
    connections.forget("local-1")
    assert connections.free_name("local") == "local-1"
    assert not connections.path_of("local-1").exists()


def test_a_process_that_was_killed_is_not_alive() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # a zombie now
    zombie = connection(pid=child)
    assert not zombie.is_alive
    os.waitpid(child, 0)
    assert not zombie.is_alive
