"""What a machine may lack for some tests: root, namespaces, an SSH server.

Those tests are skipped there, unless the environment variable ``JUPYTER_DTF_ALL_TESTS_RUN`` is set, as in the nightly
workflow's privileged container: without it, nobody would notice that they run nowhere.
"""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def skip(why: str) -> NoReturn:
    """Skip the test, or fail it where all tests are to run."""
    if os.environ.get("JUPYTER_DTF_ALL_TESTS_RUN"):
        pytest.fail(f"every test must run here, and this one cannot: {why}", pytrace=False)
    pytest.skip(why)
