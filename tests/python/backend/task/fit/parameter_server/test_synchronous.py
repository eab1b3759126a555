"""Synchronous parameter servers without backup workers against one plain Keras process: the same weights."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_dtf.schema.strategy import ParameterServer

from ...gang import run_gang
from ..cases import CASES
from ..comparison import Recorded, compare, distributed, plain

pytestmark = pytest.mark.timeout(180)

REFUSED = ("two optimizers", "mixed float16")
ON_ONE = {name: case for name, case in CASES.items() if name not in REFUSED and not case.strategy}


@pytest.fixture(scope="module")
def reference() -> dict[str, Recorded]:
    results: dict[str, Recorded] = run_gang(1, plain(ON_ONE))[0]
    return results


@pytest.fixture(scope="module")
def trained() -> dict[str, Any]:
    results: dict[str, Any] = run_gang(3, distributed(ON_ONE, strategy=ParameterServer(sync=True)), servers=1)[0]
    return results


@pytest.mark.parametrize("name", ON_ONE)
def test_workers_and_a_server_do_what_one_process_does(
    name: str, trained: dict[str, Any], reference: dict[str, Recorded]
) -> None:
    compare(CASES[name], reference[name], trained[name])
