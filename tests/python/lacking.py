"""Skips tests for which the machine lacks something: root, namespaces, an SSH server.

If the environment variable ``JUPYTER_DTF_ALL_TESTS_RUN`` is set, as in the nightly workflow's privileged container,
these tests fail instead. Otherwise, nobody would notice if they did not run anywhere.
"""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def skip(why: str) -> NoReturn:
    """Skip the test, or fail it if all tests must run."""
    if os.environ.get("JUPYTER_DTF_ALL_TESTS_RUN"):
        pytest.fail(f"every test must run here, and this one cannot: {why}", pytrace=False)
    pytest.skip(why)
