from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_dtf.schema import api, design, events, graph, hosts, placement, run
from jupyter_dtf.schema.typescript import ENUMS, STRUCTS, generate

FILE = Path(__file__).parents[3] / "src" / "api" / "schema.ts"


def test_the_file_is_what_the_structs_are_now() -> None:
    assert FILE.read_text(encoding="utf-8") == generate(), (
        "stale: run python -m jupyter_dtf.schema.typescript > src/api/schema.ts"
    )


def test_the_command_prints_the_same() -> None:
    command = [sys.executable, "-m", "jupyter_dtf.schema.typescript"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == generate()


@pytest.mark.parametrize("module", [api, run, events, hosts, graph, placement, design])
def test_every_struct_that_the_browser_sees_is_there(module: object) -> None:
    not_for_browsers = {"Struct", "Event", "Point", "Points", "RunRequest"}
    defined = {
        name
        for name, value in vars(module).items()
        if isinstance(value, type)
        and value.__module__ == getattr(module, "__name__", "")
        and (hasattr(value, "__struct_fields__") or hasattr(value, "__members__"))
    }
    assert defined - not_for_browsers <= {kind.__name__ for kind in (*STRUCTS, *ENUMS)}


def test_forms() -> None:
    text = generate()
    assert "export type ClusterState = 'starting' | 'running' | 'stopping' | 'stopped' | 'failed' | 'lost';" in text
    assert "  exit_code: number | null;" in text
    assert "  x: (number | null)[];" in text
    assert "  latest: Record<string, number | null>;" in text
    assert "  jobs?: Record<string, number>;" in text  # a default where the browser sends it
    assert "  dashboard_url: string;" in text  # and none where it does not
    assert '  HostDesign: {"cpus": 1, "memory_bytes": 0, "gpus": []},' in text
    assert "export type ClientMessage = Subscribe | Unsubscribe;" in text
    assert "  type: 'subscribe';" in text
    assert "/** The name of the Dask worker it runs on. */" in text
    assert "Points" not in text.replace("points", "")
