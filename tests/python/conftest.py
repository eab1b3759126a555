"""Gives every test its own directories, and checks that none of its processes is still running at its end.

A test that shares a cluster with the other tests of its module (a fixture of module scope) is marked
``module_directories``. It uses the module's directories, in which that cluster's connection file and store are.
"""

from __future__ import annotations

import gc
import multiprocessing.util
import os
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import psutil
import pytest

from . import once, patience

pytest_plugins = ["pytest_jupyter.jupyter_server", "tests.python.order"]

EXIT_TIMEOUT_S = 10.0
OLD_S = 1.0
"""The age in seconds from which a process has its final environment: it is not about to execute another program."""
_strangers: set[int] = set()
"""The ids of running processes that no test has started, so that they are not examined again after every test."""
# Python's own helper processes, which run until the interpreter ends.
HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    marker = item.get_closest_marker("timeout")
    patience.begin(float(marker.args[0] if marker else item.config.getini("timeout")))
    return (yield)


def pytest_configure(config: pytest.Config) -> None:
    """Create a temporary directory for the whole run. It is removed at the end, with the files that killed processes
    have left.
    """
    if hasattr(config, "workerinput"):  # a worker of pytest-xdist uses the directory of its controller
        return
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())  # kept, to inspect failures
    directory = tempfile.mkdtemp(prefix="dtf-")
    os.environ["TMPDIR"] = os.environ[once.DIRECTORY] = tempfile.tempdir = directory
    # Called after multiprocessing has removed its own directory in it, which has the priority -100.
    multiprocessing.util.Finalize(None, shutil.rmtree, args=(directory, True), exitpriority=-200)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from scanning all of TensorFlow each time, as in the warm process."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()
        gc.set_threshold(50_000, 20, 20)


def _set_directories(patch: pytest.MonkeyPatch, root: Path) -> None:
    patch.setenv("JUPYTER_CONFIG_DIR", str(root / "jupyter-config"))
    patch.setenv("JUPYTER_DATA_DIR", str(root / "jupyter-data"))
    patch.setenv("JUPYTER_RUNTIME_DIR", str(root / "jupyter-runtime"))
    patch.setenv("JUPYTER_DTF_DATA_DIR", str(root / "dtf"))


def _running(session_directory: str) -> dict[psutil.Process, int]:
    """Return the running processes that tests have started, with their parents' ids.

    These are the descendants of this process, and processes that have left its tree but have the session directory in
    their environment.
    """
    there = set(psutil.pids())
    _strangers.intersection_update(there)  # ids are reused
    found = {}
    for pid in there - _strangers - {os.getpid()}:
        try:
            process = psutil.Process(pid)
            ours = _descends(process) or process.environ().get("JUPYTER_DTF_DATA_DIR", "").startswith(session_directory)
            if not ours:
                if time.time() - process.create_time() > OLD_S:
                    _strangers.add(pid)
            elif process.status() != psutil.STATUS_ZOMBIE and not _is_helper(process):
                found[process] = process.ppid()
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def _descends(process: psutil.Process) -> bool:
    """Return whether the process is a descendant of this one."""
    me = os.getpid()
    return any(parent.pid == me for parent in process.parents())


def _is_helper(process: psutil.Process) -> bool:
    return any(name in argument for argument in process.cmdline() for name in HELPERS)


def _describe(process: psutil.Process) -> str:
    try:
        return f"{process.pid} ({process.status()}): {shlex.join(process.cmdline())}"
    except psutil.NoSuchProcess:
        return f"{process.pid}: has just ended"


def _watch(session_directory: str) -> Iterator[None]:
    """Fail if a process that was started in the meantime is still running, unless its parent was running before (as for
    fixtures of a wider scope).
    """
    before = set(_running(session_directory))
    yield
    known = {process.pid for process in before}
    left = []
    after = _running(session_directory)
    for process, parent in sorted(after.items(), key=lambda item: item[0].create_time()):  # parents come first
        if process in before or parent in known:
            known.add(process.pid)
        else:
            left.append(process)
    _, alive = psutil.wait_procs(left, timeout=EXIT_TIMEOUT_S)
    if alive:
        lines = [_describe(process) for process in alive]
        for process in alive:
            process.kill()
        psutil.wait_procs(alive, timeout=EXIT_TIMEOUT_S)
        pytest.fail(f"Processes are left {EXIT_TIMEOUT_S:.0f} s after the test:\n" + "\n".join(lines), pytrace=False)


@pytest.fixture(scope="session")
def session_directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"{tmp_path_factory.getbasetemp()}{os.sep}"


@pytest.fixture(scope="module", autouse=True)
def no_process_left_by_module(session_directory: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give the fixtures of a module their own directories, and check that none of their processes is left."""
    with pytest.MonkeyPatch.context() as patch:
        _set_directories(patch, tmp_path_factory.mktemp("module"))
        yield from _watch(session_directory)


@pytest.fixture(autouse=True)
def no_process_left(
    request: pytest.FixtureRequest, session_directory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Give the test its own directories, and check that none of its processes is left."""
    if request.node.get_closest_marker("module_directories") is None:
        _set_directories(monkeypatch, tmp_path)
    yield from _watch(session_directory)


@pytest.fixture(autouse=True, scope="module")
def no_session_left() -> Iterator[None]:
    """Close the module's session, because it knows the clusters of that module's directories."""
    yield
    if (client := sys.modules.get("jupyter_dtf.client.session")) is not None and client._session is not None:
        client._session.close()


@pytest.fixture(autouse=True)
def no_seed_left() -> Iterator[None]:
    """Reset TensorFlow's global seed after a test, because it would seed all later operations that have no seed of
    their own.
    """
    yield
    if (tensorflow := sys.modules.get("tensorflow")) is not None:
        from tensorflow.python.eager import context

        if context.global_seed() is not None:
            tensorflow.random.set_seed(None)
