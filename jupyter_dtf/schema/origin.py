"""What a run was made of: model, data, code, versions and commit, as the process that submitted it found them."""

from __future__ import annotations

from .base import PeerStruct


class Source(PeerStruct):
    """A piece of code that a run was submitted with."""

    name: str
    """The path of its file, ``cell`` for one of a notebook, or the name of a function."""
    text: str


class Origin(PeerStruct):
    """What is known about a run besides its request. Small, because lists of runs contain it; code is an event."""

    model: str = ""
    """The model's name; empty for a program without a known model."""
    weights: int | None = None
    """The number of the model's parameters. None: it had not been built, or the tasks create it."""
    data: str = ""
    """The form of the training data: ``arrays``, ``tf.data.Dataset``, ``function``."""
    versions: dict[str, str] = {}
    """By names as people write them: ``TensorFlow``, ``Keras``, ``jupyter_dtf``, ``Python``."""
    directory: str = ""
    """The working directory."""
    commit: str = ""
    """The commit checked out in the Git repository of the working directory; empty if it is in none."""
    branch: str = ""
    """Its branch; empty if none is checked out."""
