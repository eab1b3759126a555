"""Exceptions that end a training function wrapped by ``elastic.run``, and make it be called again."""

from __future__ import annotations


class HorovodInternalError(RuntimeError):
    """A collective failed. ``elastic.run`` goes back to the last commit."""


class HostsUpdatedInterrupt(RuntimeError):
    """A program requests that its training function be called again with the current state.

    Horovod raises it when hosts are added or removed. Here, the gang keeps its size, so only programs raise it.
    ``skip_sync`` means that nothing was lost and the state need not be sent again.
    """

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__("The training function is to be called again")
        self.skip_sync = skip_sync
