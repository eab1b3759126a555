"""Install Python packages into the environment of this interpreter, with uv if possible, otherwise with pip.

* ``python -m tools.install packages REQUIREMENT...`` installs these packages;
* ``python -m tools.install dependencies EXTRA...`` installs the dependencies of this checkout, only with uv;
* ``python -m tools.install checkout EXTRA...`` installs this checkout in editable mode. The lab extension is a link to
  its build, so that a later build needs no installation.

Packages come from the sources that pip is configured to use.
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

# The environment variables of uv that correspond to pip's settings.
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
# pip's settings that affect neither which packages are installed nor where they come from.
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
"""The sections of pip's configuration that apply to ``pip install``. Later ones take precedence."""


def settings(listed: str) -> dict[str, str]:
    """Return the settings that apply to ``pip install``, given the output of ``pip config list``."""
    found: dict[str, str] = {}
    for section in SECTIONS:
        for line in listed.splitlines():
            name, _, value = line.partition("=")
            where, _, key = name.rpartition(".")
            if where == section:
                found[key.replace("_", "-")] = str(ast.literal_eval(value))
    return found


def variables(pip: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str] | None:
    """Return the environment in which uv does the same as pip, or None if pip has a setting that uv does not have.

    ``given`` is the current environment. Its variables take precedence.
    """
    made = {
        "UV_INDEX_STRATEGY": "unsafe-best-match",  # as pip does: search all indexes, and take the newest version
        "UV_SYSTEM_CERTS": "1",
        "UV_NO_PROGRESS": "1",
    }
    if "cert" in pip or "SSL_CERT_FILE" in given:
        del made["UV_SYSTEM_CERTS"]
    for key, value in pip.items():
        if key in VARIABLES:
            # The items of pip's lists are separated by white space. So are those of uv's lists, except this one.
            made[VARIABLES[key]] = ("," if key == "find-links" else " ").join(value.split())
        elif key not in OF_NO_MATTER:
            return None
    if "UV_DEFAULT_INDEX" not in given and "UV_INDEX_URL" in given:
        made.pop("UV_DEFAULT_INDEX", None)
    return {**made, **given}


def find_uv() -> str | None:
    """Return the path of uv, which is installed next to this interpreter if there is none; None if that fails."""
    beside = Path(sys.executable).with_name("uv")
    if not beside.exists() and (found := shutil.which("uv")):
        return found
    if not beside.exists():
        subprocess.run([*PIP, "install", "-qq", "uv>=0.5"], stderr=subprocess.DEVNULL, check=False)
    return str(beside) if beside.exists() else None


def by_uv(text: str, arguments: list[str]) -> bool:
    """Run ``uv pip install`` with these arguments. Return whether it succeeded."""
    listed = subprocess.run([*PIP, "config", "list"], stdout=subprocess.PIPE, text=True, check=False).stdout
    environment = variables(settings(listed), os.environ)
    uv = find_uv() if environment is not None else None
    if uv is None:
        return False
    command = [uv, "pip", "install", "--python", sys.executable, *arguments]
    return step.run(text, command, environment=environment, pass_on="Downloading") == 0


def install(text: str, arguments: list[str], build: list[str] | None = None) -> int:
    """Install with uv or, if that fails, with pip. Return the exit status.

    ``build``: additional arguments for pip.
    """
    if by_uv(text, arguments):
        return 0
    return step.run(f"{text} (with pip)", [*PIP, "install", "-q", *(build or []), *arguments])


def checkout(extras: str) -> int:
    """Install this checkout in editable mode, and return the exit status."""
    prefix = Path(sys.prefix) / "share/jupyter/labextensions"
    link = prefix / "jupyter_dtf"
    _remove(link)  # otherwise, the installer would remove the build itself, through the link
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
    """Run the command ``what``, and return the exit status."""
    os.chdir(ROOT)
    extras = ",".join(names)
    if what == "packages":
        return install("Installing the build tools", names)
    if what == "checkout":
        return checkout(extras)
    # This runs while the extension is built. Without uv, pip installs the dependencies later, with the checkout.
    text = "Installing TensorFlow, Keras and Jupyter" + (" and the test tools" if "test" in names else "")
    if by_uv(text, ["-r", "pyproject.toml", *(f"--extra={name}" for name in names)]):
        compile_imported()
    return 0


def compile_imported() -> None:
    """Compile the modules that every start imports to byte code, as pip does with all modules.

    TensorFlow then starts in a third of the time.
    """
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # some container images set it
    command = ["nice", sys.executable, "-c", f"import {', '.join(IMPORTED)}"]
    step.run("Compiling the imported modules", command, environment=environment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
