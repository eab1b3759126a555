"""Checks whether a host's key is in OpenSSH's file of known hosts, and accepts the key of a new host."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import asyncssh

from ...errors import InvalidInput
from .ssh_entries import HostEntry

_PORT = 22


def connect_options(entry: HostEntry, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return asyncssh's options for a host. asyncssh reads omitted options from SSH's configuration."""
    made: dict[str, Any] = {"host": entry.host}
    if entry.port:
        made["port"] = entry.port
    if entry.user:
        made["username"] = entry.user
    if file := options["key_file"]:
        made |= {"client_keys": [str(Path(file).expanduser())], "agent_path": None}
    if file := options["known_hosts"]:
        path = Path(file).expanduser()
        made["known_hosts"] = str(path) if path.is_file() else b""
    return made


def check_known(entries: Sequence[HostEntry], options: Mapping[str, Any]) -> None:
    """Raise InvalidInput if a private key cannot be read, or if the check is strict and hosts are not known."""
    unknown = []
    for entry in entries:
        try:
            if not is_known(entry, options):
                unknown.append(entry)
        except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError, ValueError) as error:
            raise InvalidInput(
                f"The private key cannot be used: {error}. Add a key with a passphrase to an SSH agent (ssh-add)",
                field="options.key_file" if options["key_file"] else "options.hosts",
            ) from None
        except OSError as error:
            raise InvalidInput(f"SSH's configuration cannot be read: {error}", field="options.hosts") from None
    if unknown and options["host_keys"] == "strict":
        raise InvalidInput(_unknown_sentence(unknown), field="options.hosts")


def _unknown_sentence(unknown: Sequence[HostEntry]) -> str:
    names = ", ".join(entry.host for entry in unknown)
    if len(unknown) == 1:
        what = f"The host key of {names} is not known, so its identity cannot be verified. Connect once manually"
    else:
        what = f"The host keys of {names} are not known, so their identity cannot be verified. Connect to each manually"
    return f"{what} (`{unknown[0].command}`) and compare the fingerprint, or set Host keys (host_keys) to accept-new"


def is_known(entry: HostEntry, options: Mapping[str, Any]) -> bool:
    """Return whether any key of the host is known, or the user's configuration disables the check."""
    made = asyncssh.SSHClientConnectionOptions(**connect_options(entry, options))
    known: Any = made.known_hosts
    if known is None:  # the user's configuration disables the check
        return True
    if not known:
        known = _default()
    try:
        matched = asyncssh.match_known_hosts(
            known, made.host_key_alias or made.host, "", made.port if made.port != _PORT else None
        )
    except OSError:
        return False
    return any(matched[:2]) or any(matched[3:6:2])


async def accept(entry: HostEntry, options: Mapping[str, Any]) -> None:
    """Accept and save the key of a host, unless one of its keys is known already. Raises OSError or asyncssh.Error."""
    if is_known(entry, options):
        return
    given = {key: value for key, value in connect_options(entry, options).items() if key in ("host", "port")}
    key = await asyncssh.get_server_host_key(**given)
    made = asyncssh.SSHClientConnectionOptions(**connect_options(entry, options))
    name = made.host_key_alias or made.host
    where = name if made.port == _PORT or made.host_key_alias else f"[{name}]:{made.port}"
    if key is None:
        raise OSError(f"{entry.host} has presented no key")
    line = f"{where} {key.export_public_key().decode().strip()}\n"
    await asyncio.to_thread(_append, options["known_hosts"] or "~/.ssh/known_hosts", line)


def _append(file: str, line: str) -> None:
    path = Path(file).expanduser()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with open(descriptor, "a") as known:
        known.write(line)


def _default() -> Any:
    path = Path("~/.ssh/known_hosts").expanduser()
    return str(path) if path.is_file() and os.access(path, os.R_OK) else b""
