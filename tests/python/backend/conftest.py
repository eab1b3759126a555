"""A real cluster that the tests of a module share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import jupyter_dtf as dtf
from jupyter_dtf.client.session import session


@pytest.fixture
def leave_session() -> Iterator[None]:
    """Close this process's session after the test, because the next test has other directories."""
    yield
    session().close()


@pytest.fixture(scope="module")
def cluster(no_process_left_by_module: None) -> Iterator[dtf.Cluster]:
    """A local cluster of two workers, in the directories of the module."""
    with dtf.Cluster(jobs={"worker": 2}, name="shared") as shared:
        yield shared
    session().close()
