"""Normalization of device strings, and matching of full strings against partial ones. Pure."""

from __future__ import annotations

import re

_PART = re.compile(r"/(?P<key>job|replica|task|device|cpu|gpu):(?P<value>[^/]+)", re.IGNORECASE)


def parts(device: str) -> dict[str, str]:
    """Return the parts of a device string, keyed by ``job``, ``task``, ``type`` and ``index``. Missing parts, and parts
    that are ``*``, are omitted.
    """
    found: dict[str, str] = {}
    for match in _PART.finditer(device):
        key, value = match["key"].lower(), match["value"]
        if key in ("cpu", "gpu"):  # the old spelling, /cpu:0
            key, value = "device", f"{key}:{value}"
        if key == "device":
            kind, _, index = value.partition(":")
            found["type"] = kind.upper()
            if index and index != "*":
                found["index"] = index
        elif value != "*" and key != "replica":
            found[key] = value
    return found


def plain(device: str, task: str = "") -> str:
    """Normalize a device string to the form ``/job:worker/task:1/device:CPU:0``.

    ``task``, such as ``/job:worker/task:1``, is added to local devices.
    """
    found = parts(device)
    if task and found.get("job", "localhost") == "localhost":
        found.update(parts(task))
    text = "".join(f"/{key}:{found[key]}" for key in ("job", "task") if key in found)
    return f"{text}/device:{found['type']}:{found.get('index', '0')}" if "type" in found else text


def satisfies(device: str, asked: str) -> bool:
    """Return whether ``device`` matches ``asked``, which may be partial."""
    found = parts(device)
    return all(found.get(key) == value for key, value in parts(asked).items())
