"""Ports for programs that do not choose their own, such as servers that are told where they and their peers listen."""

from __future__ import annotations

import random
import socket
from itertools import islice

BELOW_THOSE_GIVEN = range(12_000, 32_000)
"""A range from which the system does not assign ports automatically: a free port stays free until the server binds it.
"""


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback interface on which nothing listens."""
    drawn = random.SystemRandom().sample(BELOW_THOSE_GIVEN, 100 + count)
    return list(islice(filter(_is_free, drawn), count))


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
