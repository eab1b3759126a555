"""The version of the protocol between jupyter_dtf's processes.

After an upgrade, kernels, Jupyter servers, cluster processes, pages in a browser and the store of past runs may be of
different versions. Each states which protocols it supports, ``OLDEST`` to ``PROTOCOL``. Two processes with a protocol
in common can communicate; otherwise they report the mismatch in one sentence and disconnect.

``PROTOCOL`` is increased if an older version would misread this version, or this version an older one: if a field is
removed or changes its meaning, if an event is required for reading others, if there is a new final state (``RunState``,
``TaskState``; waiting for an unknown final state never ends), or if the order of messages changes. It is not increased
for anything that older versions can ignore: a new event, a new field with a default, a new operation, a new
intermediate state. ``OLDEST`` is increased when the code that supports an older protocol is removed.
"""

from __future__ import annotations

from typing import Any

import msgspec

from .._version import __version__
from .base import PeerStruct

PROTOCOL = 1
"""The newest protocol that this version supports. 0 stands for versions that predate protocol numbers."""
OLDEST = 1
"""The oldest protocol that this version supports."""


class Speech(PeerStruct):
    """The protocols that a process supports. This is the only struct that every version reads in the same way."""

    protocol: int = 0
    oldest: int = 0
    release: str = ""
    """The version of jupyter_dtf of the process."""

    def __str__(self) -> str:
        return f"protocol{'s' * (self.oldest != self.protocol)} {self.numbers}"

    @property
    def numbers(self) -> str:
        """The protocols as text, such as ``2`` or ``1 to 2``."""
        return f"{self.protocol}" if self.oldest == self.protocol else f"{self.oldest} to {self.protocol}"

    def understands(self, other: Speech) -> bool:
        """Return whether there is a protocol that both processes support."""
        return max(self.oldest, other.oldest) <= min(self.protocol, other.protocol)


def ours() -> Speech:
    """Return the protocols of this process."""
    return Speech(protocol=PROTOCOL, oldest=OLDEST, release=__version__)


def theirs(raw: Any) -> Speech:
    """Decode the protocols that a peer states. A peer that states none predates protocol numbers."""
    try:
        return msgspec.convert(raw, Speech)
    except msgspec.ValidationError:
        return Speech()


def cluster_refusal(name: str, speech: Speech) -> str:
    """Return why this version cannot communicate with a cluster, and what to do, as a sentence; empty if it can."""
    mine = ours()
    if mine.understands(speech):
        return ""
    stop = f"`jupyter dtf stop {name}`"
    release = f" {speech.release}" if speech.release else ""
    if speech.protocol < mine.oldest:
        older = f"jupyter_dtf{release}" if release else "the older version"
        advice = f"stop it with {stop} and start it again, or use {older} that started it"
    else:
        newer = f"jupyter_dtf >={release}" if release else "a newer jupyter_dtf"
        advice = f"use {newer} here, or stop the cluster with {stop}"
    by = f" (jupyter_dtf{release})" if release else ""
    return (
        f"The cluster {name}{by} speaks {speech}, but this version of jupyter_dtf ({mine.release}) speaks "
        f"{mine.numbers}: {advice}"
    )


def host_refusal(name: str, speech: Speech) -> str:
    """Return why a cluster cannot use a host, and what to do, as a sentence; empty if it can."""
    mine = ours()
    if mine.understands(speech):
        return ""
    by = f" (jupyter_dtf {speech.release})" if speech.release else ""
    return (
        f"The host {name}{by} is not used: it speaks {speech}, but this cluster (jupyter_dtf {mine.release}) "
        f"speaks {mine.numbers}. Install jupyter_dtf {mine.release} there"
    )


def viewer_refusal(speech: Speech) -> str:
    """Return a sentence about an incompatible viewer for the cluster's log; empty if the viewer is compatible."""
    mine = ours()
    if mine.understands(speech):
        return ""
    by = f" (jupyter_dtf {speech.release})" if speech.release else ""
    return f"A viewer{by} speaks {speech}, but this cluster (jupyter_dtf {mine.release}) speaks {mine.numbers}"
