"""The installed versions of the packages that matter to programs, read without importing them."""

from __future__ import annotations

import contextlib
import platform
from importlib import metadata

from ..._version import __version__

TENSORFLOW = ("tensorflow", "tensorflow-cpu", "tf-nightly", "tf-nightly-cpu", "tensorflow-rocm", "intel-tensorflow")
"""The names of the distributions that contain TensorFlow."""
_PACKAGES = {
    "TensorFlow": TENSORFLOW,
    "Keras": ("keras", "keras-nightly"),
    "Dask": ("dask",),
    "distributed": ("distributed",),
}


def installed_version(*distributions: str) -> str:
    """Return the version of the first of these distributions that is installed, or an empty string if none is."""
    for name in distributions:
        with contextlib.suppress(metadata.PackageNotFoundError):
            return metadata.version(name)
    return ""


def read_versions() -> dict[str, str]:
    """Return the versions of this environment's packages, keyed by display name. The version of a package that is not
    installed is empty.
    """
    return {
        "jupyter_dtf": __version__,
        "Python": platform.python_version(),
        **{name: installed_version(*distributions) for name, distributions in _PACKAGES.items()},
    }
