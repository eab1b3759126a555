"""Simulated machines for tests. Each has its own address, network link, file system, processes and ``sshd``.

They consist of Linux namespaces (network, mounts, processes, host name, memory) of this machine, connected by a bridge
in a separate network namespace. A machine has its own ``/tmp``, ``/dev/shm``, ``/run`` and home; the rest of the file
system, with Python and this package, is shared by all of them. Their links can be cut and slowed down.

Outside of the namespaces, only one network interface is visible. All of this ends with the process that has created it,
however that process ends: the kernel kills the processes in the namespaces (``PR_SET_PDEATHSIG``), and a namespace
disappears with its last process.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import secrets
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

TOOLS = ("hostname", "ip", "mount", "nsenter", "setpriv", "ssh-keygen", "sshd", "tc", "unshare")
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_BURST_BYTES = 256 << 10
_OWN = ("/tmp", "/dev/shm", "/run")

_BRIDGE = """\
set -e
ip link set lo up
ip link add bridge type bridge
ip link set bridge up
echo up
exec sleep infinity
"""
_MACHINE = """\
set -e
hostname {name}
for place in {own}; do mount -t tmpfs -o mode=1777 tmpfs $place; done
umask 077
mkdir /run/sshd /run/home
cd /run/home
printf %s {host_key} >/run/host_key
printf %s {authorized} >/run/authorized_keys
printf %s {config} >/run/sshd_config
ip link set lo up
echo up
read -r _
exec {sshd} -D -e -f /run/sshd_config
"""
_CONFIG = """\
Port {port}
HostKey /run/host_key
AuthorizedKeysFile /run/authorized_keys
AllowUsers root
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PidFile none
MaxStartups 100
SetEnv HOME=/run/home PYTHONPATH={path}
"""
# The first process of a pid namespace is its init, so sshd adopts all processes that lose their parent.
_UNSHARE = ["unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc"]


@functools.cache
def why_not() -> str:
    """Return the reason why machines cannot be simulated here; empty if they can."""
    if not sys.platform.startswith("linux"):
        return "other machines are namespaces of Linux"
    if missing := [tool for tool in TOOLS if shutil.which(tool, path=_PATH) is None]:
        return f"other machines need {', '.join(missing)}: apt-get install iproute2 openssh-server openssh-client"
    needed = [Path(__file__).resolve(), Path(sys.prefix)]
    if hidden := [str(path) for path in needed for own in _OWN if path.is_relative_to(own)]:
        return f"other machines have {', '.join(_OWN)} of their own, where they would not see {hidden[0]}"
    if os.geteuid() != 0:
        return "other machines are namespaces, which root alone can make"
    tried = subprocess.run([*_UNSHARE, "true"], capture_output=True, text=True, check=False)
    return f"no namespaces can be made here: {tried.stderr.strip()}" if tried.returncode else ""


class Machine:
    """A simulated machine. ``name`` is its host name."""

    def __init__(
        self, name: str, address: str, port: int, *, process: subprocess.Popen[str], link: str, net: Net
    ) -> None:
        self.name = name
        self.address = address
        self.port = port
        self._process = process
        self._link = link
        self._net = net
        self._listener: threading.Thread | None = None

    @property
    def entry(self) -> str:
        """The machine as an entry of the option ``hosts`` of the kind ``ssh``."""
        return f"root@{self.address}:{self.port}"

    def run(self, *command: str) -> str:
        """Run a command on the machine, and return what it prints. Raises CalledProcessError if it fails."""
        inside = ["nsenter", "-t", str(self._init().pid), "-a", *command]
        return subprocess.run(inside, capture_output=True, text=True, check=True).stdout

    def processes(self) -> list[psutil.Process]:
        """Return all processes on the machine, except zombies and the ``sshd`` that listens."""
        init = self._init()
        here = os.readlink(f"/proc/{init.pid}/ns/pid")
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(OSError, psutil.Error):
                inside = os.readlink(f"/proc/{process.pid}/ns/pid") == here
                if inside and process != init and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def describe(self) -> str:
        """Return the processes on the machine, one per line, for the message of a failing test."""
        lines = []
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                lines.append(f"{self.name}: {process.pid} {shlex.join(process.cmdline())}")
        return "\n".join(lines)

    def files(self) -> list[str]:
        """Return the paths in the machine's own directories, except those that ``sshd`` needs."""
        found = self.run("find", "/tmp", "/dev/shm", "/run/home", "-mindepth", "1").split("\n")
        return [path for path in found if path]

    def cut(self) -> None:
        """Cut the machine's link."""
        self._net.inside("ip", "link", "set", self._link, "down")

    def mend(self) -> None:
        """Restore the machine's link."""
        self._net.inside("ip", "link", "set", self._link, "up")

    def slow(self, bits_per_s: int) -> None:
        """Limit the machine's link to so many bits per second in each direction. 0: no limit."""
        for enter, device in ((self._net.pid, self._link), (self._process.pid, "eth0")):
            tc = ["nsenter", "-t", str(enter), "-n", "tc", "qdisc"]
            subprocess.run([*tc, "del", "dev", device, "root"], capture_output=True, check=False)
            if bits_per_s:
                rate = ["rate", f"{bits_per_s}bit", "burst", str(_BURST_BYTES), "latency", "50ms"]
                _call(*tc, "add", "dev", device, "root", "tbf", *rate)

    def _init(self) -> psutil.Process:
        (init,) = psutil.Process(self._process.pid).children()
        return init

    def listen(self) -> None:
        """Start to read the output of ``sshd``, so that its pipe never fills up."""
        assert self._process.stdout is not None
        self._listener = threading.Thread(target=self._process.stdout.read, daemon=True)
        self._listener.start()

    def end(self) -> None:
        """Switch the machine off, which kills all of its processes."""
        _end(self._process, self._listener)


class Net:
    """Machines on one bridge, on which this machine has an interface, too. A context manager.

    The key that gives access to the machines (``key``) and the keys of the hosts (``known_hosts``) are written to
    ``directory``.
    """

    def __init__(self, directory: Path, names: list[str]) -> None:
        self._directory = directory
        self.machines: list[Machine] = []
        self.key = directory / "key"
        self.known_hosts = directory / "known_hosts"
        self._link = f"dtf{secrets.token_hex(4)}"
        self._subnet = _free_subnet()
        self.address = f"{self._subnet}.1"
        """The address of this machine on the bridge."""
        _make_key(self.key)
        self._switch = _start(["unshare", "--net"], _BRIDGE)
        self.pid = self._switch.pid
        try:
            _up(self._switch)
            self.inside("ip", "link", "add", "uplink", "type", "veth", "peer", "name", self._link, "netns",
                        str(os.getpid()))  # fmt: skip
            self.inside("ip", "link", "set", "uplink", "master", "bridge", "up")
            _call("ip", "addr", "add", f"{self.address}/24", "dev", self._link)
            _call("ip", "link", "set", self._link, "up")
            for name in names:
                self.add(name)
        except BaseException:
            self.close()
            raise

    def add(self, name: str, *, python_path: str | None = None) -> Machine:
        """Add a machine. ``python_path`` is its PYTHONPATH, by default that of this process."""
        number = len(self.machines)
        address, port = f"{self._subnet}.{10 + number}", 2201 + number
        host_key = self._directory / f"host_key_{number}"
        _make_key(host_key)
        path = os.environ.get("PYTHONPATH", "") if python_path is None else python_path
        script = _MACHINE.format(
            name=shlex.quote(name),
            own=" ".join(_OWN),
            host_key=shlex.quote(host_key.read_text()),
            authorized=shlex.quote(self.key.with_suffix(".pub").read_text()),
            config=shlex.quote(_CONFIG.format(port=port, path=path or "/nowhere")),
            sshd=shutil.which("sshd", path=_PATH),
        )
        process = _start(_UNSHARE, script)
        link = f"to-{number}"
        machine = Machine(name, address, port, process=process, link=link, net=self)
        self.machines.append(machine)
        _up(process)
        enter = ["nsenter", "-t", str(process.pid), "-n"]
        self.inside("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(process.pid))
        self.inside("ip", "link", "set", link, "master", "bridge", "up")
        _call(*enter, "ip", "addr", "add", f"{address}/24", "dev", "eth0")
        _call(*enter, "ip", "link", "set", "eth0", "up")
        assert process.stdin is not None and process.stdout is not None
        print(file=process.stdin, flush=True)
        said = []
        while "Server listening" not in (line := process.stdout.readline()):
            said.append(line)
            assert line, f"sshd on {name} did not start: {''.join(said)}"
        machine.listen()
        algorithm, key, *_ = host_key.with_suffix(".pub").read_text().split()
        with self.known_hosts.open("a") as known:
            print(f"[{address}]:{port} {algorithm} {key}", file=known)
        return machine

    def inside(self, *command: str) -> None:
        """Run a command in the network namespace of the bridge."""
        _call("nsenter", "-t", str(self.pid), "-n", *command)

    def close(self) -> None:
        for machine in self.machines:
            machine.end()
        _end(self._switch)

    def __enter__(self) -> Net:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _start(unshare: list[str], script: str) -> subprocess.Popen[str]:
    """Start a shell in its own namespaces. The kernel kills it when this process ends."""
    command = ["setpriv", "--pdeathsig", "KILL", *unshare, "sh", "-c", script]
    environment = {"PATH": _PATH, "LANG": "C.UTF-8"}
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )


def _end(process: subprocess.Popen[str], listener: threading.Thread | None = None) -> None:
    process.kill()
    process.wait()
    if listener is not None:
        listener.join()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()


def _up(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line == "up\n", f"a machine did not start: {line}{process.stdout.read()}"


def _call(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PATH": _PATH})
    assert done.returncode == 0, f"{shlex.join(command)}: {done.stderr}"


def _make_key(path: Path) -> None:
    path.unlink(missing_ok=True)
    _call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "a test's", "-f", str(path))


def _free_subnet() -> str:
    """Return the first three numbers of a network that this machine is not a part of. The search begins at a different
    number in each process.
    """
    found = subprocess.run(["ip", "-json", "addr"], capture_output=True, text=True, check=True, env={"PATH": _PATH})
    taken: list[dict[str, Any]] = json.loads(found.stdout)
    addresses = [info["local"] for each in taken for info in each.get("addr_info", [])]
    for number in range(os.getpid(), os.getpid() + 16_384):
        subnet = f"10.{64 + number // 256 % 64}.{number % 256}"
        if not any(address.startswith(f"{subnet}.") for address in addresses):
            return subnet
    raise AssertionError("no network is free")


@contextlib.contextmanager
def net(directory: Path, names: list[str]) -> Iterator[Net]:
    """Create machines with these names. Skips the test, with the reason, if machines cannot be simulated here."""
    from . import lacking

    if why := why_not():
        lacking.skip(why)
    with Net(directory, names) as made:
        yield made
