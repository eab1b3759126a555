"""What ends a training function that ``elastic.run`` has wrapped, and has it called again."""

from __future__ import annotations


class HorovodInternalError(RuntimeError):
    """A collective failed. ``elastic.run`` goes back to the last commit."""


class HostsUpdatedInterrupt(RuntimeError):
    """A program asks for its training function to be called again with the state as it is.

    Horovod raises it when hosts come or go; here the gang keeps its size, so only a program raises it. ``skip_sync``
    says that nothing was lost and the state need not be sent again.
    """

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__("The training function is to be called again")
        self.skip_sync = skip_sync
