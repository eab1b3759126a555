from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_dtf.schema import (
    api,
    cluster_request,
    design,
    events,
    graph,
    hosts,
    machines,
    placement,
    run,
    socket_messages,
)
from jupyter_dtf.schema.typescript import CONSTANTS, ENUMS, STRUCTS, generate

FILE = Path(__file__).parents[3] / "src" / "api" / "schema.ts"


def test_the_file_is_what_the_structs_are_now() -> None:
    assert FILE.read_text(encoding="utf-8") == generate(), (
        "stale: run python -m jupyter_dtf.schema.typescript > src/api/schema.ts"
    )


def test_the_command_prints_the_same() -> None:
    command = [sys.executable, "-m", "jupyter_dtf.schema.typescript"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == generate()


@pytest.mark.parametrize(
    "module", [api, cluster_request, machines, socket_messages, run, events, hosts, graph, placement, design]
)
def test_every_struct_that_the_browser_sees_is_there(module: object) -> None:
    events_alone = {"Event", "Point", "Points", "TaskEvent", "UnknownEvent", "_Typed"}
    not_for_browsers = {"Struct", "PeerStruct", "RunDescriptor", "RunRequest", *events_alone}
    defined = {
        name
        for name, value in vars(module).items()
        if isinstance(value, type)
        and value.__module__ == getattr(module, "__name__", "")
        and (hasattr(value, "__struct_fields__") or hasattr(value, "__members__"))
    }
    assert defined - not_for_browsers <= {kind.__name__ for kind in (*STRUCTS, *ENUMS)}


def test_a_constant_of_ours_stands_nowhere_else_in_the_browser() -> None:
    """Lists and expressions that are generated are not also written by hand, under any name."""
    generated = [_written(name) for name in CONSTANTS]
    found = []
    for path in sorted((*FILE.parents[1].rglob("*.ts"), *FILE.parents[1].rglob("*.tsx"))):
        if path != FILE:
            text = "".join(path.read_text(encoding="utf-8").split())
            found += [f"{path.name}: {one}" for one in generated if one and one in text]
    assert not found


def _written(name: str) -> str:
    """Return a constant as it would be written by hand, without spaces. Empty if its value could mean many things."""
    (line,) = (
        line for line in FILE.read_text(encoding="utf-8").splitlines() if line.startswith(f"export const {name}")
    )
    value = "".join(line.partition(" = ")[2].rstrip(";").split())
    return value if value[0] in "[/" else ""


def test_forms() -> None:
    text = generate()
    assert "export type ClusterState = 'starting' | 'running' | 'stopping' | 'stopped' | 'failed' | 'lost';" in text
    assert "  exit_code: number | null;" in text
    assert "  x: (number | null)[];" in text
    assert "  latest: Record<string, number | null>;" in text
    assert "  jobs?: Record<string, number>;" in text  # optional where the browser sends it
    assert "  message: string;" in text  # and required where it does not
    assert '  HostDesign: {"cpus": 1, "memory_bytes": 0, "gpus": []},' in text
    assert "export type ClientMessage = Subscribe | Show | Unsubscribe;" in text
    assert "  type: 'subscribe';" in text
    assert "/** The name of the Dask worker on which the task runs. */" in text
    assert "export const CPU_JOBS: readonly string[] = ['ps', 'evaluator'];" in text
    assert "export const FINAL_STATES: readonly RunState[] = ['succeeded', 'failed', 'stopped', 'lost'];" in text
    assert "export const MAX_TASKS_PER_JOB = 10000;" in text
    assert "export const JOB_NAME = /^[a-zA-Z][a-zA-Z0-9_]*$/;" in text
    assert "Points" not in text.replace("points", "")
