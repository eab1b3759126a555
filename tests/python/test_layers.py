"""Who may import whom, as docs/architecture.md says; import-linter holds the layers, this holds the rest."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "jupyter_dtf"
FILES = {path.relative_to(ROOT).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}
PURE = (
    "jupyter_dtf/errors.py",
    "jupyter_dtf/schema/",
    "jupyter_dtf/backend/devices.py",
    "jupyter_dtf/backend/plan.py",
    "jupyter_dtf/backend/info.py",
    "jupyter_dtf/backend/calibration.py",
    "jupyter_dtf/backend/costs.py",
    "jupyter_dtf/backend/designs.py",
    "jupyter_dtf/backend/placement.py",
    "jupyter_dtf/backend/prediction.py",
    "jupyter_dtf/backend/schedule.py",
    "jupyter_dtf/backend/spread.py",
    "jupyter_dtf/backend/stages.py",
    "jupyter_dtf/backend/metrics/record.py",
    "jupyter_dtf/backend/metrics/series.py",
    "jupyter_dtf/backend/metrics/decimate.py",
)


def imports(name: str, *, module_level: bool = False) -> Iterator[str]:
    """Dotted names of the modules that a file imports; ``module_level``: leaving out what functions import."""
    package = name.removesuffix(".py").removesuffix("/__init__").split("/")
    if not name.endswith("__init__.py"):
        package = package[:-1]

    def visit(nodes: list[ast.stmt]) -> Iterator[str]:
        for node in nodes:
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = package[: len(package) - node.level + 1] if node.level else []
                module = ".".join([*base, *filter(None, [node.module])])
                yield from ([module] if node.module else (f"{module}.{alias.name}" for alias in node.names))
            elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
                yield from visit(node.orelse)
            elif not (module_level and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
                for _, value in ast.iter_fields(node):
                    inner = value if isinstance(value, list) else []
                    yield from visit([child for child in inner if isinstance(child, ast.stmt)])
                    for handler in inner:
                        if isinstance(handler, ast.ExceptHandler | ast.match_case):
                            yield from visit(handler.body)

    yield from visit(ast.parse(FILES[name].read_text()).body)


def within(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def offenders(names: list[str], *, ours: tuple[str, ...]) -> list[str]:
    """Imports of modules of this package outside ``ours``."""
    return [
        f"{name} imports {module}"
        for name in names
        for module in imports(name)
        if within(module, "jupyter_dtf") and not within(module, *ours)
    ]


def test_the_import_contracts_hold() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as lint; lint()", "--no-cache"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


IN_TASKS = ("jupyter_dtf/backend/task/", "jupyter_dtf/compat/horovod/")
OUTSIDE_TOO = ("jupyter_dtf/compat/horovod/__init__.py", "jupyter_dtf/compat/horovod/install.py")


def test_tensorflow_is_imported_at_module_level_in_the_task_process_alone() -> None:
    assert not [
        f"{name} imports {module}"
        for name in FILES
        if not name.startswith(IN_TASKS) or name in OUTSIDE_TOO
        for module in imports(name, module_level=True)
        if within(module, "tensorflow", "keras")
    ]


def test_tornado_is_known_to_the_handlers_alone() -> None:
    assert not [
        f"{name} imports {module}"
        for name in FILES
        if not name.startswith("jupyter_dtf/handlers/")
        for module in imports(name)
        if within(module, "tornado")
    ]


def test_a_task_process_knows_the_schema_and_the_errors() -> None:
    names = [name for name in FILES if name.startswith("jupyter_dtf/backend/task/")]
    assert names
    allowed = ("jupyter_dtf.schema", "jupyter_dtf.errors", "jupyter_dtf.backend.task")
    assert not offenders(names, ours=allowed)


@pytest.mark.parametrize("room", PURE)
def test_a_pure_module_knows_pure_modules(room: str) -> None:
    names = [name for name in FILES if name == room or (room.endswith("/") and name.startswith(room))]
    assert names
    assert not offenders(names, ours=tuple(p.removesuffix(".py").rstrip("/").replace("/", ".") for p in PURE))


def test_the_table_of_modules_names_what_there_is() -> None:
    """Every module of the backend stands in the architecture's table, and the table names nothing that is not there."""
    table = [line.split("|")[1] for line in (ROOT / "docs/architecture.md").read_text().splitlines() if "|" in line]
    named: set[str] = set()
    for cell in table:
        folder = ""
        for name in re.findall(r"`([\w./]+(?:\.py|/))`", cell):
            folder = name.rpartition("/")[0] if "/" in name else folder
            named.add(name if "/" in name else f"{folder}/{name}")
    missing = [name for name in sorted(named) if not (PACKAGE / name).exists()]
    assert not missing, f"docs/architecture.md names what is not there: {missing}"
    modules = [name.removeprefix("jupyter_dtf/") for name in FILES if name.startswith("jupyter_dtf/backend/")]
    unnamed = [
        module
        for module in modules
        if not module.endswith("__init__.py")
        and module not in named
        and not any(name.endswith("/") and module.startswith(name) for name in named)
    ]
    assert not unnamed, f"docs/architecture.md does not name: {unnamed}"
