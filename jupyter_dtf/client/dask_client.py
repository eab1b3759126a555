"""The Dask client of a cluster, for collections that are computed on the hosts on which training runs."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from .session import session

if TYPE_CHECKING:
    from distributed import Client

_clients: dict[tuple[str, float], Client] = {}
_lock = threading.Lock()


def client_of(name: str) -> Client:
    """Return this process's client for a ready cluster's scheduler; create it if there is none yet.

    It is not the default client: use ``with client.as_current():`` or ``client.compute(...)``.
    """
    from distributed import Client

    from ..backend.viewer.link import security_of

    connection = session().do(lambda fleet: fleet.connection(name))
    with _lock:
        key = name, connection.created
        if (known := _clients.get(key)) is None or known.status == "closed":
            known = Client(  # type: ignore[no-untyped-call]
                connection.address, security=security_of(connection), set_as_default=False
            )
            _clients[key] = known
        return known


def forget(name: str) -> None:
    """Close the clients of a cluster that is ending."""
    with _lock:
        for key in [key for key in _clients if key[0] == name]:
            with contextlib.suppress(Exception):  # its scheduler may be gone
                _clients.pop(key).close(timeout=2)  # type: ignore[no-untyped-call]
