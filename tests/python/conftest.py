"""What every test gets: directories of its own, and the check that no process of it is left.

A test that shares a cluster with the others of its module (a fixture of module scope) is marked ``module_directories``:
it sees the module's connection files and store, which are where that cluster has put them.
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
"""After which a process has the environment that it will have: it is not about to be another program."""
_strangers: set[int] = set()
"""Ids of processes that are there and none of ours; every test would ask twice."""
# Python's own, which stay until the interpreter ends.
HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    marker = item.get_closest_marker("timeout")
    patience.begin(float(marker.args[0] if marker else item.config.getini("timeout")))
    return (yield)


def pytest_configure(config: pytest.Config) -> None:
    """A temporary directory of the run's own, which goes with what killed processes leave in it."""
    if hasattr(config, "workerinput"):  # a worker of pytest-xdist has its controller's
        return
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())  # where failures are looked into stays
    directory = tempfile.mkdtemp(prefix="dtf-")
    os.environ["TMPDIR"] = os.environ[once.DIRECTORY] = tempfile.tempdir = directory
    # After multiprocessing has removed its own there, which has the priority -100.
    multiprocessing.util.Finalize(None, shutil.rmtree, args=(directory, True), exitpriority=-200)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """As in the warm process: collecting garbage need not look through all of TensorFlow each time."""
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
    """Processes that tests have started, with their parents' ids.

    They are descendants of this one, and those that left the tree but carry the session directory in their environment.
    """
    there = set(psutil.pids())
    _strangers.intersection_update(there)  # an id may be given again
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
    """Whether it is a descendant of this one."""
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
    """Fail when something started meanwhile is still there, other than by what was there before (a wider fixture's)."""
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
    """Directories for the fixtures of a module, and nothing left of them."""
    with pytest.MonkeyPatch.context() as patch:
        _set_directories(patch, tmp_path_factory.mktemp("module"))
        yield from _watch(session_directory)


@pytest.fixture(autouse=True)
def no_process_left(
    request: pytest.FixtureRequest, session_directory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Directories of the test's own, and nothing left of what it starts."""
    if request.node.get_closest_marker("module_directories") is None:
        _set_directories(monkeypatch, tmp_path)
    yield from _watch(session_directory)


@pytest.fixture(autouse=True, scope="module")
def no_session_left() -> Iterator[None]:
    """No module finds the session of another, which knows the clusters of other directories."""
    yield
    if (client := sys.modules.get("jupyter_dtf.client.session")) is not None and client._session is not None:
        client._session.close()


@pytest.fixture(autouse=True)
def no_seed_left() -> Iterator[None]:
    """TensorFlow's global seed, which gives all later operations without one a seed, is the test's own."""
    yield
    if (tensorflow := sys.modules.get("tensorflow")) is not None:
        from tensorflow.python.eager import context

        if context.global_seed() is not None:
            tensorflow.random.set_seed(None)
