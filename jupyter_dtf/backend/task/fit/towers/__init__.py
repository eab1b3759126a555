"""In-graph replication: one client, one tower of the model per device, their mean gradient applied once."""

from __future__ import annotations

from .client import train

__all__ = ["train"]
