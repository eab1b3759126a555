"""Simulates two machines and the link between them with network namespaces. Needs root, and the programs ip and tc."""

from __future__ import annotations

import os
import shutil
import subprocess

NAMES = ("dtf-tcp-a", "dtf-tcp-b")
ADDRESSES = ("198.18.91.1", "198.18.91.2")
BURST_BYTES = 256 << 10  # for tbf: with a smaller burst, it could not reach 10 Gbit/s at the kernel's timer rate


def why_not() -> str:
    """Return the reason why the link cannot be simulated here, or an empty string if it can."""
    if os.getuid() != 0:
        return "only root can create network namespaces"
    missing = [program for program in ("ip", "tc") if shutil.which(program) is None]
    return f"{' and '.join(missing)} cannot be found" if missing else ""


class Link:
    """The simulated machines and their link, which exist within the context."""

    def __enter__(self) -> Link:
        self._end()
        try:
            for name in NAMES:
                _call("ip", "netns", "add", name)
            _call(
                "ip", "-n", NAMES[0], "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", NAMES[1]
            )
            for name, address in zip(NAMES, ADDRESSES, strict=True):
                _call("ip", "-n", name, "addr", "add", f"{address}/30", "dev", "cable")
                _call("ip", "-n", name, "link", "set", "lo", "up")
                _call("ip", "-n", name, "link", "set", "cable", "up")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def limit(self, bits_per_second: float) -> None:
        """Limit the link to this rate in each direction."""
        for name in NAMES:
            rate = f"{bits_per_second:.0f}bit"
            shape = ("tbf", "rate", rate, "burst", str(BURST_BYTES), "latency", "100ms")
            _call("tc", "-n", name, "qdisc", "replace", "dev", "cable", "root", *shape)

    def _end(self) -> None:
        for name in NAMES:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def _call(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
