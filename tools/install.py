"""Install Python packages into the environment of this interpreter, by uv where that can be had, else by pip.

``python -m tools.install packages REQUIREMENT...``, ``dependencies EXTRA...`` (of this checkout, without itself; by uv
alone) and ``checkout EXTRA...`` (in editable form; the lab extension is a link to its build, so that a later build
needs no installation). Packages come from where pip is configured to find them.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tools import step

ROOT = Path(__file__).absolute().parent.parent
PIP = [sys.executable, "-m", "pip"]

# pip's settings, and the variables by which uv is told the same.
VARIABLES = {
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "index-url": "UV_DEFAULT_INDEX",
    "no-cache-dir": "UV_NO_CACHE",
    "proxy": "ALL_PROXY",
    "retries": "UV_HTTP_RETRIES",
    "timeout": "UV_HTTP_TIMEOUT",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "trusted-host": "UV_INSECURE_HOST",
}
# What says nothing about which packages are installed, or from where.
OF_NO_MATTER = {
    "break-system-packages", "cache-dir", "config-file", "disable-pip-version-check", "log", "no-color", "no-input",
    "no-python-version-warning", "no-warn-script-location", "prefer-binary", "progress-bar", "quiet",
    "require-virtualenv", "root-user-action", "verbose",
}  # fmt: skip
IMPORTED = (
    "jupyterlab.labapp", "ipykernel.ipkernel", "ipywidgets", "distributed", "bokeh.embed", "bokeh.plotting", "pandas",
    "sklearn.datasets", "tensorflow", "keras",
)  # fmt: skip
SECTIONS = ("global", "install", ":env:")
"""Of pip's configuration; a later one goes before an earlier one."""


def settings(listed: str) -> dict[str, str]:
    """What holds for ``pip install``, from the output of ``pip config list``."""
    found: dict[str, str] = {}
    for section in SECTIONS:
        for line in listed.splitlines():
            name, _, value = line.partition("=")
            where, _, key = name.rpartition(".")
            if where == section:
                found[key.replace("_", "-")] = str(ast.literal_eval(value))
    return found


def variables(pip: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str] | None:
    """The environment in which uv does as pip would, or None where pip is told what uv cannot be told.

    What a person has set for uv stays.
    """
    made = {
        "UV_INDEX_STRATEGY": "unsafe-best-match",  # pip looks everywhere as well, and takes the newest
        "UV_SYSTEM_CERTS": "1",
        "UV_NO_PROGRESS": "1",
    }
    if "cert" in pip or "SSL_CERT_FILE" in given:
        del made["UV_SYSTEM_CERTS"]
    for key, value in pip.items():
        if key in VARIABLES:
            # pip's lists are apart by white space, and so are uv's, but for this one.
            made[VARIABLES[key]] = ("," if key == "find-links" else " ").join(value.split())
        elif key not in OF_NO_MATTER:
            return None
    if "UV_DEFAULT_INDEX" not in given and "UV_INDEX_URL" in given:
        made.pop("UV_DEFAULT_INDEX", None)
    return {**made, **given}


def find_uv() -> str | None:
    """The path of uv; it is installed beside this interpreter if the machine has none."""
    beside = Path(sys.executable).with_name("uv")
    if not beside.exists() and (found := shutil.which("uv")):
        return found
    if not beside.exists():
        subprocess.run([*PIP, "install", "-qq", "uv>=0.5"], stderr=subprocess.DEVNULL, check=False)
    return str(beside) if beside.exists() else None


def by_uv(text: str, arguments: list[str]) -> bool:
    """Whether uv has installed what ``arguments`` say."""
    listed = subprocess.run([*PIP, "config", "list"], stdout=subprocess.PIPE, text=True, check=False).stdout
    environment = variables(settings(listed), os.environ)
    uv = find_uv() if environment is not None else None
    if uv is None:
        return False
    command = [uv, "pip", "install", "--python", sys.executable, *arguments]
    return step.run(text, command, environment=environment, pass_on="Downloading") == 0


def install(text: str, arguments: list[str], build: list[str] | None = None) -> int:
    """The exit status, by uv or else by pip. ``build``: what pip is to be told as well, where something is built."""
    if by_uv(text, arguments):
        return 0
    return step.run(f"{text} (by pip)", [*PIP, "install", "-q", *(build or []), *arguments])


def checkout(extras: str) -> int:
    """Install this checkout in editable form."""
    prefix = Path(sys.prefix) / "share/jupyter/labextensions"
    link = prefix / "jupyter_dtf"
    _remove(link)  # else what was installed before would be removed through the link: the build itself
    os.environ["SKIP_JUPYTER_BUILDER"] = "1"
    os.environ["UV_NO_BUILD_ISOLATION"] = "1"
    status = install(f"Installing jupyter_dtf[{extras}]", ["-e", f".[{extras}]"], ["--no-build-isolation"])
    _remove(link)
    prefix.mkdir(parents=True, exist_ok=True)
    link.symlink_to(ROOT / "jupyter_dtf/labextension")
    return status


def _remove(path: Path) -> None:
    if path.is_symlink():
        path.unlink()
    elif path.is_dir():
        shutil.rmtree(path)


def main(what: str, names: list[str]) -> int:
    """Install, and return the exit status."""
    os.chdir(ROOT)
    extras = ",".join(names)
    if what == "packages":
        return install("Installing the build tools", names)
    if what == "checkout":
        return checkout(extras)
    # Beside the build of the extension. What pip would have to do instead, it does with the checkout.
    text = "Installing TensorFlow, Keras and Jupyter" + (" and the test tools" if "test" in names else "")
    if by_uv(text, ["-r", "pyproject.toml", *(f"--extra={name}" for name in names)]):
        compile_imported()
    return 0


def compile_imported() -> None:
    """Leave byte code of what every start imports, as pip does of all: TensorFlow comes up in a third of the time."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # of an image: without byte code each process would compile
    command = ["nice", sys.executable, "-c", f"import {', '.join(IMPORTED)}"]
    step.run("Compiling what they import", command, environment=environment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
