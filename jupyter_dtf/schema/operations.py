"""The names of the operations that a cluster's processes request of each other (``dtf_submit``, ``dtf_launch``...).

An external Dask scheduler may serve several of our clusters. There, the names end in the cluster's *scope*; on a
scheduler of the cluster's own, the scope is empty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

PREFIX = "dtf_"
LEAVE = "dtf_leave"
"""Remove everything from an external scheduler, which knows this operation until that is done."""


def scoped(name: str, scope: str) -> str:
    """The name of an operation, handler or plugin within a scope."""
    return f"{name}-{scope}" if scope else name


class ScopedRpc:
    """``rpc`` (``distributed.rpc``) with our operations under their scoped names, and Dask's under their own."""

    def __init__(self, rpc: Any, scope: str) -> None:
        self._rpc = rpc
        self._scope = scope

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rpc, scoped(name, self._scope) if name.startswith(PREFIX) else name)


def scoped_rpc(rpc: Callable[[str], Any], scope: str) -> Callable[[str], Any]:
    """``rpc(address)``, with the peer's operations of one scope."""
    return (lambda address: ScopedRpc(rpc(address), scope)) if scope else rpc
