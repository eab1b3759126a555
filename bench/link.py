"""Two machines and the link between them, out of network namespaces. Needs root and the programs ``ip`` and ``tc``."""

from __future__ import annotations

import os
import shutil
import subprocess

NAMES = ("dtf-tcp-a", "dtf-tcp-b")
ADDRESSES = ("198.18.91.1", "198.18.91.2")
BURST_BYTES = 256 << 10  # tbf sends so much at once: at 10 Gbit/s less would not keep up with the kernel's clock


def why_not() -> str:
    """Why there can be none here, or nothing."""
    if os.getuid() != 0:
        return "only root can make network namespaces"
    missing = [program for program in ("ip", "tc") if shutil.which(program) is None]
    return f"{' and '.join(missing)} cannot be found" if missing else ""


class Link:
    """For as long as the context lasts."""

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
        """Let so much through each way."""
        for name in NAMES:
            rate = f"{bits_per_second:.0f}bit"
            shape = ("tbf", "rate", rate, "burst", str(BURST_BYTES), "latency", "100ms")
            _call("tc", "-n", name, "qdisc", "replace", "dev", "cable", "root", *shape)

    def _end(self) -> None:
        for name in NAMES:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def _call(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
