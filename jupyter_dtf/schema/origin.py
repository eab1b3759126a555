"""What a run was made of: model, data, code, versions and commit, as the process that submitted it found them."""

from __future__ import annotations

from .base import PeerStruct


class Source(PeerStruct):
    """A piece of code that a run was submitted with."""

    name: str
    """The path of its file, ``cell`` for one of a notebook, or the name of a function."""
    text: str


class Origin(PeerStruct):
    """What is known of a run beside what was asked for. It is small: lists of runs have it, and code is an event."""

    model: str = ""
    """The model's name; empty for a program of which nothing is known."""
    weights: int | None = None
    """So many parameters the model has. None: it had not been built, or is made by the tasks."""
    data: str = ""
    """The form of the training data: ``arrays``, ``tf.data.Dataset``, ``function``."""
    versions: dict[str, str] = {}
    """By names as people write them: ``TensorFlow``, ``Keras``, ``jupyter_dtf``, ``Python``."""
    directory: str = ""
    """The working directory."""
    commit: str = ""
    """Of the Git repository that the working directory is in: the commit that is checked out. Empty: in none."""
    branch: str = ""
    """Its branch; empty where none is checked out."""
