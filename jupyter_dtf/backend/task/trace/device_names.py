"""Device strings: one spelling, and whether a full one is what a partial one asks for. Pure."""

from __future__ import annotations

import re

_PART = re.compile(r"/(?P<key>job|replica|task|device|cpu|gpu):(?P<value>[^/]+)", re.IGNORECASE)


def parts(device: str) -> dict[str, str]:
    """``job``, ``task``, ``type`` and ``index`` of a device string, as far as it has them. ``*`` is none."""
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
    """``/job:worker/task:1/device:CPU:0`` of any spelling; ``task``, ``/job:worker/task:1``, is that of a local one."""
    found = parts(device)
    if task and found.get("job", "localhost") == "localhost":
        found.update(parts(task))
    text = "".join(f"/{key}:{found[key]}" for key in ("job", "task") if key in found)
    return f"{text}/device:{found['type']}:{found.get('index', '0')}" if "type" in found else text


def satisfies(device: str, asked: str) -> bool:
    """Whether ``device`` is what ``asked``, which may leave parts open, asks for."""
    found = parts(device)
    return all(found.get(key) == value for key, value in parts(asked).items())
