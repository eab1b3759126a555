"""The versions of what programs meet on this machine, as they are installed: nothing is imported to find out."""

from __future__ import annotations

import contextlib
import platform
from importlib import metadata

from ..._version import __version__

TENSORFLOW = ("tensorflow", "tensorflow-cpu", "tf-nightly", "tf-nightly-cpu", "tensorflow-rocm", "intel-tensorflow")
"""What TensorFlow is called where it is installed from."""
_PACKAGES = {
    "TensorFlow": TENSORFLOW,
    "Keras": ("keras", "keras-nightly"),
    "Dask": ("dask",),
    "distributed": ("distributed",),
}


def installed_version(*distributions: str) -> str:
    """The version of the first of these that is installed; empty where none is."""
    for name in distributions:
        with contextlib.suppress(metadata.PackageNotFoundError):
            return metadata.version(name)
    return ""


def read_versions() -> dict[str, str]:
    """The versions of this process, by names as people write them. What is not installed is empty."""
    return {
        "jupyter_dtf": __version__,
        "Python": platform.python_version(),
        **{name: installed_version(*distributions) for name, distributions in _PACKAGES.items()},
    }
