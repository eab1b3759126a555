"""The provenance of a run: model, data, code, versions and commit, as found by the process that submitted it."""

from __future__ import annotations

from .base import PeerStruct


class Source(PeerStruct):
    """A piece of code that was submitted with a run."""

    name: str
    """The path of the file, ``cell`` for a cell of a notebook, or the name of a function."""
    text: str


class Origin(PeerStruct):
    """The provenance of a run. Lists of runs contain it, so it must be small; code is in an event instead."""

    model: str = ""
    """The model's name; empty for a program without a known model."""
    weights: int | None = None
    """The number of the model's parameters. None: the model had not been built, or the tasks create it."""
    data: str = ""
    """The form of the training data: ``arrays``, ``tf.data.Dataset``, ``function``."""
    versions: dict[str, str] = {}
    """The versions of packages and of Python, keyed by their usual names: ``TensorFlow``, ``Keras``, ``jupyter_dtf``,
    ``Python``."""
    directory: str = ""
    """The working directory."""
    commit: str = ""
    """The commit checked out in the Git repository of the working directory; empty if there is no repository."""
    branch: str = ""
    """The branch checked out there; empty if there is none."""
