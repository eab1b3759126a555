"""A cluster's processes on a machine are found and ended, and the remains of dead clusters are removed."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_dtf.backend.machine import cluster_processes, paths, processes

from ...patience import left_s

DAEMON = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        os.close(1)
        import time
        time.sleep(1000)
    os._exit(0)
"""


@pytest.fixture
def token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The token of a cluster whose directories are the test's own."""
    monkeypatch.setattr(paths, "family_parents", lambda: [tmp_path / "machine", tmp_path / "shared"])
    return secrets.token_hex(6)


def test_a_family_is_found_wherever_its_members_have_gone(token: str, sleeper: subprocess.Popen[bytes]) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", DAEMON], env=cluster_processes.environment(token, warm=True), stdout=subprocess.PIPE
    ) as forks:
        assert forks.stdout is not None
        daemon = int(forks.stdout.readline())
    assert set(cluster_processes.members(token)) == {sleeper.pid, daemon}
    assert list(cluster_processes.members(token[:-1])) == []
    os.kill(daemon, signal.SIGSTOP)
    assert cluster_processes.end(token, warm_only=True) == []
    assert list(cluster_processes.members(token)) == [sleeper.pid]
    assert cluster_processes.end(token, but=[sleeper.pid]) == []
    os.kill(sleeper.pid, signal.SIGSTOP)
    assert cluster_processes.end(token) == []
    assert sleeper.wait() == -signal.SIGKILL


def test_what_nobody_living_claims_is_swept(token: str, sleeper: subprocess.Popen[bytes]) -> None:
    directories = [parent / token for parent in paths.family_parents()]
    claims = [cluster_processes.claim(directory) for directory in directories]
    again = cluster_processes.claim(directories[0])
    unclaimed = directories[0].with_name("not-ours")  # made by an older version: its owner is unknown
    unclaimed.mkdir()
    (directories[0] / "run").mkdir()
    assert cluster_processes.sweep() == []
    assert sleeper.poll() is None
    for claim in claims:
        os.close(claim)
    assert cluster_processes.sweep() == [token]  # but one directory is still claimed
    assert [directory.exists() for directory in directories] == [True, False]
    os.close(again)
    assert cluster_processes.sweep() == [token]
    assert sleeper.wait() == -signal.SIGKILL
    assert [each.exists() for each in (*directories, unclaimed)] == [False, False, True]


def test_a_claim_ends_with_its_process_however_that_ends(token: str) -> None:
    directory = paths.family_parents()[0] / token
    claim = (
        "import sys; from pathlib import Path; from jupyter_dtf.backend.machine import cluster_processes;"
        "cluster_processes.claim(Path(sys.argv[1])); print('claimed', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", claim, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"claimed\n"
        assert cluster_processes.sweep() == []
        process.kill()
    assert cluster_processes.sweep() == [token]
    assert not directory.exists()


def test_a_process_is_known_by_more_than_its_number(token: str, sleeper: subprocess.Popen[bytes]) -> None:
    stat = processes.stat_of(sleeper.pid)
    assert stat is not None
    assert (stat.parent, stat.has_ended, stat.is_stopped) == (os.getpid(), False, False)
    with pytest.raises(ProcessLookupError):
        processes.Handle(sleeper.pid, parent=1)
    handle = processes.Handle(sleeper.pid, parent=os.getpid())
    assert not handle.wait(0)
    handle.kill()
    assert handle.wait(left_s())
    ended = processes.stat_of(sleeper.pid)
    assert ended is not None
    assert ended.has_ended
    assert processes.how_it_ended(ended.status) == "was killed (SIGKILL)"
    handle.close()


@pytest.mark.parametrize(
    ("number", "name", "words"),
    [
        (signal.SIGSEGV, "SIGSEGV", "SIGSEGV"),
        (32, "signal 32", "signal 32"),
        (int(signal.SIGRTMIN), "SIGRTMIN", "SIGRTMIN"),
        (40, "signal 40", f"signal 40, SIGRTMIN+{40 - signal.SIGRTMIN}"),
        (63, "signal 63", f"signal 63, SIGRTMIN+{63 - signal.SIGRTMIN}"),
    ],
)
def test_every_signal_has_a_name(number: int, name: str, words: str) -> None:
    assert processes.signal_name(number) == name
    assert processes.signal_words(name) == words
    assert processes.how_it_ended(number) == f"was killed ({words})"
