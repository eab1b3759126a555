"""Tests of the built packages: they install without Node, their extensions are enabled, and their metadata is right."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
import requests
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from .patience import until

ROOT = Path(__file__).parents[2]
PACKAGE = json.loads((ROOT / "package.json").read_text())
TRANSLATION = "jupyter_dtf/locale/de_DE/LC_MESSAGES/jupyter_dtf.json"
LABEXTENSION = "share/jupyter/labextensions/jupyter_dtf"

# The source archive is built in an isolated environment, which shows that all its requirements are declared. Further
# isolated builds would show the same.
HERE = all(
    map(importlib.util.find_spec, ("hatchling", "hatch_jupyter_builder", "hatch_nodejs_version", "jupyter_builder"))
)
NO_ISOLATION = ["--no-build-isolation", "--check-build-dependencies"] if HERE else []

slow = [pytest.mark.slow, pytest.mark.timeout(600)]


def run(*command: str | Path, cwd: Path, path: str = os.environ["PATH"], **variables: str) -> str:
    """Run a command, which must succeed, and return its standard output and error."""
    environment = {**os.environ, "PATH": path, "PYTHONPATH": "", "PIP_DISABLE_PIP_VERSION_CHECK": "1", **variables}
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    return done.stdout


def clean_environment(directory: Path) -> Path:
    """Create a virtual environment with this one's packages, but not this checkout's, and return its interpreter."""
    venv.create(directory, with_pip=False, symlinks=True)
    python = directory / "bin" / "python"
    site_packages = Path(
        run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=directory).strip()
    )
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def link_packages(checkout: Path) -> None:
    """Link the JavaScript packages of this checkout, so that ``npm install`` only has to check them.

    ``make`` has installed them with ``npm ci``. They are linked file by file, because npm replaces a link to their
    folder.
    """
    installed = (ROOT / "node_modules").resolve()
    if (installed / ".package-lock.json").is_file():
        ignored = shutil.ignore_patterns(".cache", ".vite", ".vite-temp")
        shutil.copytree(installed, checkout / "node_modules", symlinks=True, ignore=ignored, copy_function=link)


def link(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:  # it is on another file system
        shutil.copy2(source, target)
    return target


@dataclass
class Built:
    checkout: Path
    """A copy of this checkout in which the source archive was built, by Node."""
    sdist: Path
    wheel: Path
    """Built from the source archive, with no Node."""
    no_node: str
    """A PATH without Node."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    root = tmp_path_factory.mktemp("packaging")
    checkout, dist, nothing = root / "checkout", root / "dist", root / "nothing"
    nothing.mkdir()
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, checkout / name)
    link_packages(checkout)
    run(sys.executable, "-m", "build", "--sdist", "--outdir", dist, cwd=checkout)
    [sdist] = dist.glob("*.tar.gz")
    wheel_of = [sys.executable, "-m", "pip", "wheel", "--no-deps", *NO_ISOLATION, "--wheel-dir", str(dist), str(sdist)]
    run(*wheel_of, cwd=root, path=str(nothing))
    [wheel] = dist.glob("*.whl")
    return Built(checkout, sdist, wheel, str(nothing))


@pytest.fixture(scope="module")
def metadata(built: Built) -> Message:
    with zipfile.ZipFile(built.wheel) as wheel:
        [name] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parsestr(wheel.read(name).decode())


class TestArchives:
    pytestmark = slow

    def test_the_source_archive_holds_the_built_extension_and_nothing_that_was_installed(self, built: Built) -> None:
        with tarfile.open(built.sdist) as archive:
            names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
        assert {
            "LICENSE",
            "README.md",
            "install.json",
            "jupyter-config/jupyter_server_config.d/jupyter_dtf.json",
            "jupyter_dtf/_version.py",
            "jupyter_dtf/labextension/package.json",
            "jupyter_dtf/labextension/static/style.js",
            TRANSLATION,
            "package-lock.json",
            "pyproject.toml",
            "src/index.ts",
        } <= names
        assert not [name for name in names if name.startswith(("node_modules/", ".venv/", "lib/", ".git/"))]

    def test_the_wheel_puts_each_part_where_jupyter_looks(self, built: Built) -> None:
        with zipfile.ZipFile(built.wheel) as wheel:
            names = set(wheel.namelist())
        data = f"jupyter_dtf-{PACKAGE['version']}.data/data"
        assert {
            "jupyter_dtf/__init__.py",
            "jupyter_dtf/_version.py",
            "jupyter_dtf/examples/digits.ipynb",
            TRANSLATION,
            "jupyter_dtf/py.typed",
            f"{data}/etc/jupyter/jupyter_server_config.d/jupyter_dtf.json",
            f"{data}/{LABEXTENSION}/install.json",
            f"{data}/{LABEXTENSION}/package.json",
            f"{data}/{LABEXTENSION}/static/style.js",
        } <= names
        assert not [name for name in names if name.startswith(("jupyter_dtf/labextension/", "tests/", "src/"))]
        assert built.wheel.stat().st_size < 2.3e6  # two thirds of it are the Python modules, BokehJS a sixth

    def test_installed_without_node_both_extensions_are_enabled_and_ok(self, built: Built, tmp_path: Path) -> None:
        python = clean_environment(tmp_path / "venv")
        path = built.no_node
        assert shutil.which("node", path=path) is None
        run(python, "-m", "pip", "install", "--no-deps", "--no-index", built.wheel, cwd=tmp_path, path=path)
        where = run(python, "-c", "import jupyter_dtf; print(jupyter_dtf.__file__)", cwd=tmp_path, path=path)
        assert where.startswith(str(tmp_path))
        copied = "from jupyter_dtf.handlers.examples import model_of; print(model_of('digits.ipynb')['type'])"
        assert run(python, "-c", copied, cwd=tmp_path, path=path).strip() == "notebook"
        assert_enabled(python, tmp_path, path)


class TestBinder:
    pytestmark = slow

    @pytest.mark.extended
    def test_its_steps_work_in_a_clean_environment(self, built: Built, tmp_path: Path) -> None:
        python = clean_environment(tmp_path / "venv")
        path = os.pathsep.join([str(python.parent), os.environ["PATH"]])
        requirements = built.checkout / "binder" / "requirements.txt"
        run(python, "-m", "pip", "install", "-r", requirements, cwd=built.checkout, path=path)
        # The same options, for the pip of a script. A value is that of the setting: 0 turns build isolation off.
        once = {"PIP_NO_BUILD_ISOLATION": "0", "PIP_CHECK_BUILD_DEPENDENCIES": "1"} if NO_ISOLATION else {}
        run("binder/postBuild", cwd=built.checkout, path=path, **once)
        assert_enabled(python, tmp_path, path)
        opened = opens(python, built.checkout, path)
        assert (
            opened.startswith("/lab/workspaces/dtf/tree/")
            and (built.checkout / opened.partition("/tree/")[2]).is_file()
        )


def opens(python: Path, root: Path, path: str) -> str:
    """Run JupyterLab by ``python``, check that its workspace has the panel, and return where it redirects a browser."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    command = [str(python), "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={url.rpartition(':')[2]}"]
    environment = {**os.environ, "PATH": path, "PYTHONPATH": "", "JUPYTER_TOKEN": "test"}
    with subprocess.Popen(command, cwd=root, env=environment, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        said = list(itertools.takewhile(lambda line: "Use Control-C" not in line, server.stderr))

        def answers() -> bool:
            assert server.poll() is None, "".join(said)
            try:
                return requests.get(f"{url}/api").ok  # it listens shortly after it has said so
            except requests.ConnectionError:
                return False

        try:
            until(answers, "".join(said))
            answer = requests.get(url, params={"token": "test"}, allow_redirects=False)
            workspace = requests.get(f"{url}/lab/api/workspaces/dtf", params={"token": "test"})
        finally:
            server.terminate()
            server.communicate()
    assert answer.status_code == 302, "".join(said)
    assert workspace.json()["data"]["layout-restorer:data"]["left"]["current"] == "jupyter-dtf-panel"
    return answer.headers["Location"].partition("?")[0]


def assert_enabled(python: Path, cwd: Path, path: str) -> None:
    """Check that Jupyter, run by ``python``, lists the server extension and the lab extension as enabled and OK."""
    server = plain(run(python, "-m", "jupyter_server.extension.serverextension", "list", cwd=cwd, path=path))
    assert re.search(
        r"^\s*jupyter_dtf enabled\n.*Validating jupyter_dtf\.\.\.\n(.*\n)?\s*jupyter_dtf .*OK$", server, re.M
    ), server
    lab = plain(run(python, "-m", "jupyterlab.labextensions", "list", cwd=cwd, path=path))
    assert re.search(rf"^\s*jupyter_dtf v{re.escape(PACKAGE['version'])} enabled OK", lab, re.M), lab


def plain(text: str) -> str:
    """Return the text without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


class TestMetadata:
    pytestmark = slow

    def test_pythons(self, metadata: Message) -> None:
        supported = ["3.10", "3.11", "3.12", "3.13"]
        prefix = "Programming Language :: Python :: 3."
        classified = [c.rsplit(" ", 1)[1] for c in metadata.get_all("Classifier", []) if c.startswith(prefix)]
        assert classified == supported
        required = SpecifierSet(metadata["Requires-Python"])
        assert all(version in required for version in supported)
        assert "3.9" not in required

    def test_version_licence_and_description(self, metadata: Message) -> None:
        assert metadata["Version"] == PACKAGE["version"]
        assert metadata["License-Expression"] == PACKAGE["license"] == "BSD-3-Clause"
        assert metadata["Summary"] == PACKAGE["description"]

    def test_tensorflow_comes_with_an_extra_and_never_alone(self, metadata: Message) -> None:
        requirements = [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]
        linux = {"sys_platform": "linux", "platform_machine": "x86_64"}
        names = {
            extra: {r.name for r in requirements if r.marker is None or r.marker.evaluate({**linux, "extra": extra})}
            for extra in ("", "cpu", "gpu")
        }
        assert not names[""] & {"tensorflow", "tensorflow-cpu", "keras", "nvidia-ml-py"}
        assert {"tensorflow-cpu", "keras"} <= names["cpu"]
        assert "tensorflow" not in names["cpu"]
        assert {"tensorflow", "keras", "nvidia-ml-py"} <= names["gpu"]
        [gpu] = [r for r in requirements if r.name == "tensorflow" and r.extras]
        assert gpu.extras == {"and-cuda"}

    def test_bokeh_and_bokehjs_are_of_one_release(self, metadata: Message) -> None:
        [bokeh] = [r for r in map(Requirement, metadata.get_all("Requires-Dist", [])) if r.name == "bokeh"]
        bokehjs = PACKAGE["dependencies"]["@bokeh/bokehjs"]
        major, minor, _ = bokehjs.split(".")
        assert bokehjs in bokeh.specifier
        assert f"{major}.{int(minor) + 1}.0" not in bokeh.specifier


def test_lock_files_hold_no_registry_address() -> None:
    lock = json.loads((ROOT / "package-lock.json").read_text())
    assert lock["packages"]
    for name, entry in lock["packages"].items():
        assert "resolved" not in entry, name
        if name:
            assert entry["integrity"], name


def test_importing_the_package_and_loading_the_server_extension_is_light() -> None:
    """What only a cluster needs is not loaded. ``python -m bench load`` measures how long loading takes."""
    program = """
import json, sys
import jupyterlab.labapp
from jupyter_server.serverapp import ServerApp
app = ServerApp.instance(open_browser=False, reraise_server_extension_failures=True, log_level="ERROR")
app.initialize(argv=[], find_extensions=False, new_httpserver=False)
before = set(sys.modules)
import jupyter_dtf
assert app.extension_manager.add_extension("jupyter_dtf", enabled=True)
app.extension_manager.link_extension("jupyter_dtf")
app.extension_manager.load_extension("jupyter_dtf")
assert app.extension_manager.extension_apps["jupyter_dtf"]
print(json.dumps(sorted({name.split(".")[0] for name in set(sys.modules) - before})))
"""
    output = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert not set(json.loads(output.splitlines()[-1])) & {
        "tensorflow",
        "keras",
        "distributed",
        "dask",
        "bokeh",
        "pandas",
    }
