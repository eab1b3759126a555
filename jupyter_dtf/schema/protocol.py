"""The version of what jupyter_dtf's processes say to each other.

Kernels, Jupyter servers, cluster processes, pages in a browser and the store of past runs are of different versions
after an upgrade. Each says which protocols it speaks, ``OLDEST`` to ``PROTOCOL``; two that have one in common
understand each other, others say so in one sentence and leave each other alone.

``PROTOCOL`` is raised when a version of before would be wrong about what this one says, or this one about what it
said: a field that is gone or means something else, an event without which the rest is misread, a new way to end
(``RunState``, ``TaskState``: who waits for an end that it does not know waits for ever), another order of messages.
It is not raised for what older versions skip without harm: a new event, a new field with a default, a new operation,
a new state on the way. ``OLDEST`` is raised when the code that understood an older one goes.
"""

from __future__ import annotations

from typing import Any

import msgspec

from .._version import __version__
from .base import PeerStruct

PROTOCOL = 1
"""What this version speaks. 0 is what spoke before there was a number."""
OLDEST = 1
"""The oldest that it understands."""


class Speech(PeerStruct):
    """What one process says of the protocols it speaks. The one struct that every version reads in the same way."""

    protocol: int = 0
    oldest: int = 0
    release: str = ""
    """Its version of jupyter_dtf."""

    def __str__(self) -> str:
        return f"protocol{'s' * (self.oldest != self.protocol)} {self.numbers}"

    @property
    def numbers(self) -> str:
        """``2``, ``1 to 2``."""
        return f"{self.protocol}" if self.oldest == self.protocol else f"{self.oldest} to {self.protocol}"

    def understands(self, other: Speech) -> bool:
        """Whether there is a protocol that both speak."""
        return max(self.oldest, other.oldest) <= min(self.protocol, other.protocol)


def ours() -> Speech:
    """What this process speaks."""
    return Speech(protocol=PROTOCOL, oldest=OLDEST, release=__version__)


def theirs(raw: Any) -> Speech:
    """What a peer says that it speaks; a peer that says nothing is of before there was a number."""
    try:
        return msgspec.convert(raw, Speech)
    except msgspec.ValidationError:
        return Speech()


def cluster_refusal(name: str, speech: Speech) -> str:
    """One sentence on a cluster that this version cannot talk to, with what to do; empty if it can."""
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
        f"The cluster {name}{by} speaks {speech}, this version of jupyter_dtf ({mine.release}) {mine.numbers}: {advice}"
    )


def host_refusal(name: str, speech: Speech) -> str:
    """One sentence on a host that its cluster cannot use, with what to do; empty if it can."""
    mine = ours()
    if mine.understands(speech):
        return ""
    by = f" (jupyter_dtf {speech.release})" if speech.release else ""
    return (
        f"The host {name}{by} is not used: it speaks {speech}, this cluster (jupyter_dtf {mine.release}) "
        f"{mine.numbers}. Install jupyter_dtf {mine.release} there"
    )


def viewer_refusal(speech: Speech) -> str:
    """The same for the log of a cluster that somebody looks at who cannot understand it; empty if they can."""
    mine = ours()
    if mine.understands(speech):
        return ""
    by = f" (jupyter_dtf {speech.release})" if speech.release else ""
    return f"A viewer{by} speaks {speech}, this cluster (jupyter_dtf {mine.release}) {mine.numbers}"
