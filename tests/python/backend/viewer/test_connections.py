from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from jupyter_dtf.backend.machine import whereabouts
from jupyter_dtf.backend.machine.whereabouts import Whereabouts
from jupyter_dtf.backend.viewer import connections, crashed, ending, starting, stopping
from jupyter_dtf.backend.viewer.connections import Connection
from jupyter_dtf.errors import Conflict, InvalidInput, NotFound, Unavailable
from jupyter_dtf.schema import private_files
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
    with pytest.raises(Conflict, match="a cluster named 'digits' exists"):
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


def test_only_a_missing_file_means_that_there_is_no_cluster() -> None:
    with pytest.raises(NotFound, match="no cluster named 'missing'"):
        connections.read("missing")
    path = connections.path_of("local-1")
    path.write_text("{")
    with pytest.raises(Unavailable, match="The connection file .*local-1.json cannot be read: "):
        connections.read("local-1")
    assert connections.read_all() == {}
    assert list(connections.listing().unreadable) == ["local-1"]
    with pytest.raises(
        Conflict,
        match="must be unused, but a cluster named 'local-1' may exist.* Remove the file if there is no such cluster",
    ):
        connections.reserve(connection("local-1"))
    assert path.read_text() == "{"
    assert connections.free_name("local") == "local-2"
    with pytest.raises(Unavailable):
        connections.mark_lost(connection("local-1"), "It was killed")


def test_a_directory_that_cannot_be_read_says_nothing_about_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path) -> list[str]:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(os, "listdir", refused)
        with pytest.raises(Unavailable, match="cannot be read: .*Input/output error"):
            connections.listing()
        assert connections.read_all() == {}


def test_names_that_are_not_valid() -> None:
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


def gone() -> int:
    """Return the id of a process that has ended."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return child


def dead(name: str = "digits", **where: str) -> Connection:
    """Return the connection of a process that does not exist here, written on a machine that differs in ``where``."""
    made = connection(name)
    made.pid = gone()
    made.where = msgspec.structs.replace(whereabouts.here(), **where)
    return made


def test_where_a_process_runs_is_in_its_file() -> None:
    connections.reserve(connection())
    assert connections.read("digits").where == whereabouts.here()
    assert not connections.read("digits").is_elsewhere


@pytest.mark.parametrize("where", [{"pids": "pid:[1]"}, {"host": "node-7", "boot": "another"}])
def test_a_process_elsewhere_is_not_looked_up_here(where: dict[str, str], tmp_path: Path) -> None:
    theirs = dead(**where)
    theirs.token, theirs.directories = "0" * 12, [str(tmp_path)]
    connections.reserve(theirs)
    assert theirs.is_elsewhere and theirs.is_alive
    assert crashed.find() == []
    assert not crashed.clear(theirs)
    ending.end_rest(theirs)
    assert tmp_path.is_dir() and connections.read("digits") == theirs
    with pytest.raises(Conflict, match="a cluster named 'digits' exists"):
        connections.reserve(connection())


def test_a_process_elsewhere_that_has_the_id_of_one_here_is_not_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        theirs = connection(pid=process.pid)
        theirs.where.pids = "pid:[1]"
        ending._kill(theirs)
        stopping._signal(theirs, signal.SIGKILL)
        theirs.where = whereabouts.here()
        assert process.poll() is None
        stopping._signal(theirs, signal.SIGTERM)
        assert process.wait() == -signal.SIGTERM


def test_nothing_is_left_of_a_process_whose_machine_was_restarted() -> None:
    before = dead(host="node-7", boot="an earlier one")
    assert before.is_elsewhere
    before.where.host = whereabouts.here().host
    if before.where.host.startswith("localhost"):
        pytest.skip("this machine has a name that any machine may have")
    assert not before.is_elsewhere and not before.is_alive
    assert starting.how_it_died(before) == "ended when its machine was restarted"


def test_a_file_that_does_not_say_where_is_taken_to_be_from_here() -> None:
    before = dead()
    before.where = Whereabouts()
    assert not before.is_elsewhere and not before.is_alive


def test_a_viewer_that_can_open_no_more_files_takes_nothing_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    mine, ended = connection(), dead()
    monkeypatch.setattr(connections, "stat_of", lambda pid: None)
    assert mine.is_alive
    assert not ended.is_alive


def test_a_full_disk_is_written_to_without_a_moment_in_which_the_file_is_damaged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine = connection()
    mine.message = "long" * 300
    connections.reserve(mine)
    size = connections.path_of("digits").stat().st_size

    def full(path: Path, flags: int = 0) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    writes: list[int] = []
    pwrite = os.pwrite

    def noted(descriptor: int, data: bytes, offset: int) -> int:
        writes.append(len(data))
        return pwrite(descriptor, data, offset)

    monkeypatch.setattr(private_files, "open_file", full)
    monkeypatch.setattr(os, "pwrite", noted)
    mine.message = "short"
    connections.write(mine)
    assert writes == [size]  # never shorter, never with the end of what was there before
    assert connections.read("digits") == mine
    mine.message = "long" * 301
    with pytest.raises(OSError, match="No space left"):
        connections.write(mine)
    assert connections.read("digits").message == "short"


@pytest.mark.parametrize("left", [False, True], ids=["unused", "left by a dead cluster"])
def test_of_two_that_reserve_a_name_at_once_one_gets_it(left: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if left:
        connections.write(dead())
    both = threading.Barrier(2)
    check = connections._check_unused

    def check_with_the_other(name: str) -> None:
        check(name)
        with contextlib.suppress(threading.BrokenBarrierError):  # the other waits for the lock
            both.wait(0.2)

    monkeypatch.setattr(connections, "_check_unused", check_with_the_other)
    with ThreadPoolExecutor(2) as pool:
        tried = [pool.submit(connections.reserve, connection()) for _ in range(2)]
    (refused,) = [error for each in tried if (error := each.exception()) is not None]
    assert isinstance(refused, Conflict)

    assert connections.read("digits").is_alive


def test_where_files_cannot_be_locked_clusters_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    connections.reserve(connection())
    with pytest.raises(Conflict):
        connections.reserve(connection())


def test_a_name_that_nobody_has_chosen_is_the_next_free_one() -> None:
    connections.reserve(connection("local-1"))
    late = connection("local-1")  # it was free when this one looked
    with pytest.raises(Conflict):
        starting._reserve(late, is_named=True)
    starting._reserve(late, is_named=False)
    assert late.name == "local-2" and connections.read("local-2") == late
