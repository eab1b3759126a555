"""Tests of the import rules in docs/architecture.md. import-linter checks the layers, and these tests the rest."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_dtf import entry_points

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "jupyter_dtf"
FILES = {path.relative_to(ROOT).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}
MODULES = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in FILES}
DOERS = {
    "asyncio", "concurrent", "ctypes", "dask", "distributed", "fcntl", "http", "IPython", "ipywidgets",
    "keras", "mmap", "multiprocessing", "os", "pathlib", "psutil", "pynvml", "random", "secrets",
    "select", "shutil", "signal", "socket", "sqlite3", "subprocess", "sys", "tempfile", "tensorflow",
    "threading", "time", "tornado", "urllib", "uuid",
}  # fmt: skip
"""Modules that access the outside world: files, clocks, processes, threads, random numbers."""


def imports(name: str, *, module_level: bool = False) -> Iterator[str]:
    """Yield the dotted names of the modules that a file imports. ``module_level`` leaves out imports in functions."""
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
                for alias in node.names:
                    full = f"{module}.{alias.name}"
                    yield full if full in MODULES else module
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


def test_tornado_is_known_to_the_handlers_and_to_what_keeps_dask_from_http() -> None:
    assert not [
        f"{name} imports {module}"
        for name in FILES
        if not name.startswith(("jupyter_dtf/handlers/", "jupyter_dtf/backend/kinds/dask_http.py"))
        for module in imports(name)
        if within(module, "tornado")
    ]


NAMED = {
    # The package's lazy names.
    ("jupyter_dtf/__init__.py", "import_module"): "public names, from a table here",
    ("jupyter_dtf/backend/task/fit/strategies.py", "import_module"): "the folders beside it",
    ("jupyter_dtf/compat/horovod/__init__.py", "import_module"): "as the package's, of its own modules",
    ("jupyter_dtf/compat/horovod/install.py", "import_module"): "from a table of its own modules",
    ("jupyter_dtf/compat/tensorflow_on_spark/__init__.py", "import_module"): "as Horovod's",
    ("jupyter_dtf/compat/tensorflow_on_spark/install.py", "import_module"): "from a table of its own modules",
    # Sent as text to a Dask worker, which may lack the package.
    ("jupyter_dtf/backend/host/external_worker.py", "import_module"): "the package, where it is",
    ("jupyter_dtf/backend/host/external_worker.py", "jupyter_dtf._version"): "which one that is",
    ("jupyter_dtf/backend/host/external_worker.py", "jupyter_dtf.backend.host.host"): "the host",
    ("jupyter_dtf/backend/host/external_worker.py", "jupyter_dtf.tensorflow_chatter"): "undone",
    (
        "jupyter_dtf/backend/cluster/external_scheduler.py",
        "jupyter_dtf.client.cluster",
    ): "whether a person has imported it there",
    # Other processes, which share no import with the one that starts them.
    ("jupyter_dtf/backend/viewer/starting.py", "jupyter_dtf.backend.cluster.cluster_process"): "the cluster process",
    ("jupyter_dtf/backend/host/warm_client.py", "jupyter_dtf.backend.task.warm"): "the warm process",
    ("jupyter_dtf/backend/host/answerer.py", "jupyter_dtf.backend.task.answers.answerer"): "what answers partitions",
    ("jupyter_dtf/backend/kinds/ssh_cluster.py", "jupyter_dtf.backend.kinds.ssh_nanny"): "the nanny on a host",
    ("jupyter_dtf/backend/kinds/jobqueue_cluster.py", "jupyter_dtf.backend.kinds.job_worker"): "the worker in a job",
    ("jupyter_dtf/backend/kinds/kubernetes_spec.py", "jupyter_dtf.backend.kinds"): "what pods run",
    ("jupyter_dtf/testing/kinds.py", "jupyter_dtf.backend.kinds"): "a fresh interpreter, to see what it imports",
    # Text for readers.
    ("jupyter_dtf/schema/typescript.py", "jupyter_dtf.schema.typescript"): "the head of the file that it writes",
    # Groups of entry points, which have the names of this package's folders.
    ("jupyter_dtf/schema/subprocess_job.py", "jupyter_dtf.subprocess_jobs"): "the group of subprocess jobs",
    ("jupyter_dtf/backend/task/script_program.py", "jupyter_dtf.compat"): "the group of stand-ins",
}  # fmt: skip
"""The files that may import or start something by a string, what, and why. Import contracts do not see these imports.

Code in a higher layer, or outside of the project, is found by its entry point (``jupyter_dtf/entry_points.py``)."""

BY_STRING = {"import_module", "__import__", "run_module", "run_path", "load_source", "spec_from_file_location"}


def named_by_strings(source: str) -> Iterator[str]:
    """Yield the calls that import by a string, and this package's modules named in strings other than docstrings."""
    tree = ast.parse(source)
    documentation = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in BY_STRING:
                yield called
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            if node.value in MODULES and "." in node.value:
                yield node.value
            yield from re.findall(r"(?:-m|import|from)\s+(jupyter_dtf\.[\w.]+)", node.value)


def test_nothing_is_imported_or_started_by_a_string() -> None:
    found = {(name, what) for name, path in FILES.items() for what in named_by_strings(path.read_text())}
    unexplained = sorted(found - set(NAMED))
    assert not unexplained, f"import it, or find it by an entry point (jupyter_dtf/entry_points.py): {unexplained}"
    assert not sorted(set(NAMED) - found), "an exception that nobody needs any more"


def test_a_string_around_a_contract_is_found() -> None:
    """The known ways to import or start a module by a string are found."""
    for source in [
        "importlib.import_module(name)",
        "from importlib import import_module\nimport_module('.x', __name__)",
        "__import__('x')",
        "PLACE = 'jupyter_dtf.subprocess_jobs.place_design'",
        "subprocess.run([sys.executable, '-m', 'jupyter_dtf.subprocess_jobs.place_design'])",
        "os.system('python -m jupyter_dtf.subprocess_jobs.place_design')",
        "exec('from jupyter_dtf.client import cluster')",
        "runpy.run_module(name)",
    ]:
        assert list(named_by_strings(source)), source
    assert not list(named_by_strings('"""Run ``python -m jupyter_dtf.schema.typescript``."""'))


def test_every_entry_point_leads_somewhere() -> None:
    tomllib = pytest.importorskip("tomllib", reason="from Python 3.11 on")
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    assert groups.pop("jupyterlab.locale") == {"jupyter_dtf": "jupyter_dtf"}  # JupyterLab's own group
    assert set(groups) == {"jupyter_dtf.compat", "jupyter_dtf.subprocess_jobs", "jupyter_dtf.kinds"}
    for group, offered in groups.items():
        for name, value in offered.items():
            assert value.partition(":")[0] in MODULES, name
            entry_points.points.cache_clear()
            assert entry_points.point(group, name).value == value, entry_points.reinstall()


def calls_itself_pure(name: str) -> bool:
    """Return whether a file's docstring says so, by a sentence that begins with ``Pure``."""
    return re.search(r"(^|\. |\n)Pure[.:;,]", ast.get_docstring(ast.parse(FILES[name].read_text())) or "") is not None


PURE = [name for name in FILES if calls_itself_pure(name)]
INERT = ("jupyter_dtf.schema", "jupyter_dtf.errors", "jupyter_dtf._version")


def test_planning_is_pure() -> None:
    assert [name for name in FILES if "/backend/planning/" in name and name not in PURE] == []


@pytest.mark.parametrize("name", PURE)
def test_what_calls_itself_pure_knows_only_what_is(name: str) -> None:
    pure = {path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in PURE}
    ours = [module for module in imports(name) if within(module, "jupyter_dtf") and not within(module, *INERT)]
    assert [module for module in ours if module not in pure] == []
    assert [module for module in imports(name) if module.partition(".")[0] in DOERS] == []


def test_the_table_of_modules_names_what_there_is() -> None:
    """Every module of the backend is in the architecture's table, and the table names only what exists."""
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


def test_file_names_that_occur_more_than_once() -> None:
    """Those in docs/architecture.md, and no other: a name that means two things misleads whoever looks for one."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    named = text.partition("These names occur more than once:")[2].partition("\n#")[0]
    count = Counter(path.name for path in FILES.values())
    repeated = {name for name, number in count.items() if number > 1 and not name.startswith("__")}
    assert repeated == set(re.findall(r"`(\w+\.py)`", named))
