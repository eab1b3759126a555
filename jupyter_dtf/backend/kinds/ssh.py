"""The kind ``ssh``: Dask workers on other machines, started over SSH.

This module describes the kind and checks its options; ``ssh_cluster`` starts the clusters.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import InvalidInput
from ...schema.api import FieldInfo
from ...schema.hosts import HostDesign
from . import idle_release, ssh_entries
from .base import Kind

STRICT, ACCEPT_NEW = "strict", "accept-new"


class SshKind(Kind):
    """The kind ``ssh``: Dask workers on machines that are reachable over SSH."""

    kind = "ssh"
    title = "Machines over SSH"

    def missing(self) -> str:
        if importlib.util.find_spec("asyncssh") is None:
            return "asyncssh is not installed: pip install jupyter-dtf[ssh]"
        return ""

    def fields(self) -> list[FieldInfo]:
        return [
            FieldInfo(
                name="hosts",
                title="Hosts",
                type="list",
                default=[],
                help="Such as alice@gpu1:2222, gpu2 gpus=0+1. Each gets one Dask worker. ~/.ssh/config applies.",
            ),
            FieldInfo(
                name="python",
                title="Python on the hosts",
                type="string",
                default="",
                help="A program, or the directory of an environment. Empty: the same as here, else python3.",
            ),
            FieldInfo(
                name="directory",
                title="Working directory on the hosts",
                type="string",
                default="",
                help="Empty: the home directory.",
            ),
            FieldInfo(
                name="key_file",
                title="Private key",
                type="string",
                default="",
                help="A key file without a passphrase. Empty: the SSH agent's keys, and those in ~/.ssh.",
            ),
            FieldInfo(
                name="host_keys",
                title="Host keys",
                type="choice",
                default=STRICT,
                choices=[STRICT, ACCEPT_NEW],
                help="strict: only known hosts. accept-new: a new host's key is accepted and saved.",
            ),
            FieldInfo(
                name="known_hosts",
                title="Known hosts file",
                type="string",
                default="",
                help="Empty: from SSH's configuration, else ~/.ssh/known_hosts.",
            ),
            FieldInfo(
                name="interface",
                title="Network interface",
                type="string",
                default="",
                help="Such as ib0, here and on the hosts. Empty: the one through which SSH reaches a host.",
            ),
            FieldInfo(
                name="address",
                title="Address of this machine",
                type="string",
                default="",
                help="The address at which hosts reach this machine, if SSH connections come from another one.",
            ),
            FieldInfo(
                name="threads_per_host",
                title="Threads per host",
                type="integer",
                default=0,
                minimum=0,
                maximum=1024,
                help="Divided among the tasks of a run. 0: the host's cores.",
            ),
            FieldInfo(
                name="memory_per_host_bytes",
                title="Memory per host",
                type="bytes",
                default=0,
                minimum=0,
                help="Dask's limit for its own data. 0: the host's memory.",
            ),
            *idle_release.fields(),
        ]

    def hosts(self, options: Mapping[str, Any], jobs: Mapping[str, int]) -> int:
        return len(ssh_entries.parse(options["hosts"]))

    def expected_hosts(self, options: Mapping[str, Any]) -> list[HostDesign]:
        """Return no hosts: their cores are not known yet. Raises InvalidInput for errors that can be detected here."""
        entries = ssh_entries.parse(options["hosts"])
        if file := options["key_file"]:
            _check_file(file, "key_file", "The private key")
        if (file := options["known_hosts"]) and options["host_keys"] == STRICT:
            _check_file(file, "known_hosts", "The known hosts file")
        if not self.missing():
            from . import ssh_host_keys

            ssh_host_keys.check_known(entries, options)
        return []

    async def create(self, options: Mapping[str, Any], security: Any, directory: Path) -> Any:
        from . import ssh_cluster

        return await ssh_cluster.start(options, security, directory.name)


def _check_file(path: str, field: str, what: str) -> None:
    full = Path(path).expanduser()
    if not full.is_file() or not os.access(full, os.R_OK):
        raise InvalidInput(f"{what} must be a readable file, got {path!r:.200}", field=f"options.{field}")
