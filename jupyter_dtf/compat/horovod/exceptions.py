"""Exceptions that end a training function wrapped by ``elastic.run``, which then calls the function again."""

from __future__ import annotations


class HorovodInternalError(RuntimeError):
    """Raised if a collective fails. ``elastic.run`` then returns to the last commit."""


class HostsUpdatedInterrupt(RuntimeError):
    """Raised by a program so that its training function is called again with the current state.

    Horovod raises this exception when hosts are added or removed. Here, the number of tasks does not change, so only
    programs raise it. ``skip_sync`` means that nothing was lost, so the state need not be sent again.
    """

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__("The training function must be called again")
        self.skip_sync = skip_sync
