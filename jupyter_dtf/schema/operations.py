"""The names of the operations that a cluster's processes request of each other (``dtf_submit``, ``dtf_launch``...).

An external Dask scheduler may serve several of our clusters. There, the names end in the *scope* of the cluster. On a
cluster's own scheduler, the scope is empty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

PREFIX = "dtf_"
LEAVE = "dtf_leave"
"""The operation that removes a cluster's handlers, plugins and operations from an external scheduler, and finally
itself."""


def scoped(name: str, scope: str) -> str:
    """Return the name of an operation, handler or plugin within a scope, which may be empty."""
    return f"{name}-{scope}" if scope else name


class ScopedRpc:
    """A ``distributed.rpc`` that calls our operations by their scoped names, and Dask's by their usual names."""

    def __init__(self, rpc: Any, scope: str) -> None:
        self._rpc = rpc
        self._scope = scope

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rpc, scoped(name, self._scope) if name.startswith(PREFIX) else name)


def scoped_rpc(rpc: Callable[[str], Any], scope: str) -> Callable[[str], Any]:
    """Wrap ``rpc`` so that the objects that it returns call our operations by their names in ``scope``.

    If the scope is empty, ``rpc`` itself is returned.
    """
    return (lambda address: ScopedRpc(rpc(address), scope)) if scope else rpc
