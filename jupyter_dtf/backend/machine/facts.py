"""Facts about this machine that matter to runs: free disk space, GPUs, network addresses."""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import os
import shutil
import socket
import tempfile
from pathlib import Path

import psutil

from ...schema.checkup import FreeSpace
from ...schema.disk_space import nearest
from . import paths
from .versions import TENSORFLOW, installed_version

_SHARED = "make it larger: docker run --shm-size=2g, mount -o remount,size=2g /dev/shm"
_DISCARD = 9  # nothing is sent to this port: only the route is looked up


def free_spaces() -> list[FreeSpace]:
    """Return the disk space where runs, tasks and shared memory are written, with one entry per file system."""
    places = [
        ("runs", paths.runs_dir(), "set JUPYTER_DTF_DATA_DIR to a directory with more free space"),
        ("tasks and programs", Path(tempfile.gettempdir()), "set TMPDIR to a directory with more free space"),
        ("memory shared by tasks", paths.family_parents()[1].parent, _SHARED),
    ]
    found: dict[int, FreeSpace] = {}
    for what, path, advice in places:
        with contextlib.suppress(OSError):
            there = nearest(path)
            usage = shutil.disk_usage(there)
            device = there.stat().st_dev
            if device in found:
                found[device] = found[device]._replace(what=f"{found[device].what}, {what}")
            else:
                found[device] = FreeSpace(what, str(there), usage.free, usage.total, advice)
    return list(found.values())


def gpus_asked_for() -> str | None:
    """Return the value of CUDA_VISIBLE_DEVICES, or None if it is not set."""
    return os.environ.get("CUDA_VISIBLE_DEVICES")


@functools.cache
def tensorflow_distribution() -> str:
    """Return the name of the installed TensorFlow distribution, such as ``tensorflow-cpu``; empty if there is none."""
    return next((name for name in TENSORFLOW if installed_version(name)), "")


def interface_of(address: str) -> str:
    """Return the name of this machine's network interface with the address; empty if there is none."""
    with contextlib.suppress(OSError, ValueError):
        wanted = ipaddress.ip_address(address.strip("[]"))
        for interface, addresses in psutil.net_if_addrs().items():
            for each in addresses:
                with contextlib.suppress(ValueError):
                    if ipaddress.ip_address(each.address.partition("%")[0]) == wanted:
                        return interface
    return ""


def way_to(host: str) -> str:
    """Return where packets to ``host`` leave this machine, such as ``10.0.0.1 on eth0``; empty if there is no route."""
    with contextlib.suppress(OSError):
        family, kind, _, _, place = socket.getaddrinfo(host.strip("[]"), _DISCARD, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(place)
            address = str(probe.getsockname()[0])
        return f"{address} on {interface}" if (interface := interface_of(address)) else address
    return ""
