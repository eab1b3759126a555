"""Ports for what does not choose its own: a server that is told where to listen, and where the others do."""

from __future__ import annotations

import random
import socket
from itertools import islice

BELOW_THOSE_GIVEN = range(12_000, 32_000)
"""Where the system takes none for who asks for any: a port that is free stays so until the server has it."""


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface at which nobody listens."""
    drawn = random.SystemRandom().sample(BELOW_THOSE_GIVEN, 100 + count)
    return list(islice(filter(_is_free, drawn), count))


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
