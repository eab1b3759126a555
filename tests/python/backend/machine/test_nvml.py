"""NVML is initialized once per process; tested with a fake of NVIDIA's library."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from jupyter_dtf.backend.machine.nvml import NVML, Nvml

from .test_gpus import FakeNvml


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    found = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", found)
    return found


def test_many_readings_initialize_it_once(library: FakeNvml) -> None:
    nvml = Nvml()
    for _ in range(3):
        with nvml.reading() as found:
            assert found is library
    assert (library.opened, library.open) == (1, 1)


def test_what_has_failed_is_shut_down_when_the_last_reading_has_ended(library: FakeNvml) -> None:
    nvml = Nvml()
    inside, go_on = threading.Event(), threading.Event()

    def read() -> None:
        with nvml.reading():
            inside.set()
            go_on.wait(60)

    other = threading.Thread(target=read)
    other.start()
    assert inside.wait(60)
    with pytest.raises(FakeNvml.NVMLError), nvml.reading():
        raise library.NVMLError(library.NVML_ERROR_GPU_IS_LOST)
    assert library.open == 1  # the other thread is still reading
    go_on.set()
    other.join(60)
    assert library.open == 0
    with nvml.reading():
        assert (library.opened, library.open) == (2, 1)


def test_an_error_of_another_kind_leaves_it_initialized(library: FakeNvml) -> None:
    nvml = Nvml()
    with pytest.raises(KeyError), nvml.reading():
        raise KeyError
    assert library.open == 1


def test_a_driver_that_comes_later_is_found(library: FakeNvml) -> None:
    nvml = Nvml()
    library.driver = False
    with pytest.raises(FakeNvml.NVMLError), nvml.reading():
        pytest.fail("there is no driver")
    library.driver = True
    with nvml.reading():
        assert library.open == 1


def test_a_fork_initializes_its_own_and_leaves_that_of_its_parent(library: FakeNvml) -> None:
    with NVML.reading():  # a child that inherited its parent's lock would deadlock
        assert (library.opened, library.open) == (1, 1)
        child = os.fork()
        if child == 0:
            with NVML.reading():
                os._exit(10 * library.opened + library.open)  # nothing was shut down
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 22
    with NVML.reading():
        assert (library.opened, library.open) == (1, 1)
