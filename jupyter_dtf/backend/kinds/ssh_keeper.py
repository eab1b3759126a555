"""The keeper: the process that SSH starts on a host. It starts Dask's nanny, and ends it when the connection closes.

This module is sent as source code to the host's Python, so it uses only the standard library, and is compatible with
Python 3.6. The other side sends lines on standard input:

* ``{"start": {"module", "settings", "environment", "silent_s"}}``, as JSON: start the nanny;
* an empty line every few seconds, as a heartbeat.

If nothing is received for ``silent_s``, or the connection is closed, everything that was started here is ended.

The keeper first sends ``{"hello": {...}}``, which describes the host's Python and its problem, if any. It sends
``{"started": pid}`` when the nanny starts, and ``{"ended": status, "words": the nanny's last output}`` at the end.
"""

import ctypes
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Tuple

FAMILY = "JUPYTER_DTF_FAMILY"
KEEPER = "JUPYTER_DTF_KEEPER"
NEEDED = (3, 10)
PACKAGES = ("jupyter_dtf", "distributed", "tensorflow", "keras")
GRACE_S = 4.0
LEAVE_S = 60.0
"""Seconds that tasks have to leave when the machine is about to go away, unless it goes away sooner."""
IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE)
TAIL_BYTES = 8 << 10
RUN_MODULE = """\
import sys
if sys.path[:1] == [""]:
    del sys.path[0]
import runpy
runpy.run_module(sys.argv[1], run_name="__main__")
"""
_LOOK_S = 0.5
_DEATH = 1


def hello() -> Dict[str, Any]:
    """Describe this host and its Python; ``problem`` is the reason why they cannot be used, or empty."""
    if sys.path and sys.path[0] == "":
        del sys.path[0]
    found: Dict[str, Any] = {
        "program": sys.executable,
        "python": list(sys.version_info[:3]),
        "machine": socket.gethostname(),
        "identity": identity(),
        "problem": "",
    }
    if sys.version_info < NEEDED:
        found["problem"] = "Python must be 3.10 or newer, got {}.{}".format(*sys.version_info[:2])
        return found
    if not sys.platform.startswith("linux"):
        found["problem"] = "Tasks are forked from a warm process, which needs Linux"
        return found
    import importlib.util

    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        found["problem"] = f"there is no {' and no '.join(missing)}: {sys.executable} -m pip install jupyter-dtf[cpu]"
        return found
    return found


def identity() -> str:
    """Return a string that is the same for two processes only if they are on one machine and can share memory."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read().strip()
        return f"{boot} {os.stat('/dev/shm').st_dev}"
    except OSError:
        return f"{socket.gethostname()} {time.time()}"


def tell(message: Dict[str, Any]) -> None:
    """Send a message to the other side as one line of JSON, if it is still connected."""
    try:
        os.write(1, (json.dumps(message) + "\n").encode())
    except OSError:
        pass


class Lines:
    """Reads lines from standard input without waiting for more data than is available."""

    def __init__(self) -> None:
        self.rest = b""
        self.ended = False

    def take(self, timeout: float) -> List[bytes]:
        """Return the lines that have arrived, waiting at most ``timeout`` seconds for the first."""
        if b"\n" not in self.rest and not self.ended and select.select([0], [], [], timeout)[0]:
            data = os.read(0, 1 << 16)
            self.ended = not data
            self.rest += data
        *lines, self.rest = self.rest.split(b"\n")
        return lines


class Nanny:
    """The process of a nanny, and the end of its output."""

    def __init__(self, process: "subprocess.Popen[bytes]", directories: List[str]) -> None:
        self.process = process
        self.directories = directories
        self.tail = b""
        self.listener = threading.Thread(target=self.listen, daemon=True)
        self.listener.start()

    def listen(self) -> None:
        assert self.process.stdout is not None
        while True:
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            if not data:
                return
            self.tail = (self.tail + data)[-TAIL_BYTES:]

    def words(self) -> str:
        self.listener.join(1.0)
        return self.tail.decode(errors="replace")


def begin() -> None:
    """Prepare the nanny's process before exec: set default signal handlers, and let it die with the keeper."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_DEATH, signal.SIGKILL)


def start(asked: Dict[str, Any]) -> Nanny:
    """Start the nanny. Its settings, which include secrets, are passed on its standard input."""
    from jupyter_dtf.backend.machine import paths  # from this host's own installation

    token = asked["environment"][FAMILY]
    # `-m` alone would put the working directory on the path.
    flags = ["-P", "-m"] if sys.version_info >= (3, 11) else ["-c", RUN_MODULE]
    process = subprocess.Popen(
        [sys.executable, *flags, asked["module"]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment(asked["environment"]),
        preexec_fn=begin,  # noqa: PLW1509 - the only other thread is the listener of an earlier nanny
        start_new_session=True,
    )
    nanny = Nanny(process, [str(parent / token) for parent in paths.family_parents()])
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(asked["settings"]).encode())
        process.stdin.close()
    except OSError:
        pass  # it has ended, which is detected later
    return nanny


def environment(more: Dict[str, str]) -> Dict[str, str]:
    made = dict(os.environ)
    made.update(more)
    path = [entry for entry in made.pop("PYTHONPATH", "").split(os.pathsep) if os.path.normpath(entry or ".") != "."]
    if path:
        made["PYTHONPATH"] = os.pathsep.join(path)
    return made


def end(started: Nanny, token: str, mine: str) -> None:
    """End everything that this keeper has started, but nothing that other keepers on this machine have started."""
    nanny = started.process

    def mine_alone(told: Dict[str, str]) -> bool:
        return told.get(KEEPER) == mine and told.get(FAMILY) == token

    if nanny.poll() is None:
        nanny.send_signal(signal.SIGTERM)
        try:
            nanny.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            pass
    until(lambda: kill(mine_alone, but_helpers=True))
    until(lambda: sum(mine_alone(told) for _, told in processes()))  # helpers clean up after the rest, then exit
    kill(mine_alone)
    if nanny.poll() is None:
        nanny.kill()
        nanny.wait()
    # Other keepers may need the warm process, too. It exits on its own and cleans up, unless it is stopped.
    deadline = time.monotonic() + GRACE_S / 2
    while family(token) and not others(token, mine) and time.monotonic() < deadline:
        time.sleep(0.05)
    if others(token, mine):
        return
    until(lambda: kill(lambda told: told.get(FAMILY, "").split("/")[0] == token))
    for directory in started.directories:
        shutil.rmtree(directory, ignore_errors=True)


def leave(started: Nanny) -> None:
    """Notify the nanny that the machine is going away, and wait until its tasks have left and it exits."""
    started.process.send_signal(signal.SIGTERM)
    try:
        started.process.wait(LEAVE_S)
    except subprocess.TimeoutExpired:
        pass


def until(left: Callable[[], int]) -> None:
    """Call ``left`` until it returns 0, for at most two seconds."""
    for _ in range(100):
        if not left():
            return
        time.sleep(0.02)


def family(token: str) -> List[int]:
    return [pid for pid, told in processes() if told.get(FAMILY, "").split("/")[0] == token]


def others(token: str, mine: str) -> bool:
    """Return whether another keeper has processes of this cluster on this machine, which need the warm process."""
    return any(told.get(FAMILY) == token and told.get(KEEPER) != mine for _, told in processes())


def kill(wanted: Callable[[Dict[str, str]], bool], but_helpers: bool = False) -> int:
    """Kill the processes with an environment for which ``wanted`` returns True, and return their number.

    ``but_helpers`` excludes the processes for which ``is_helper`` is true.
    """
    found = [pid for pid, told in processes() if wanted(told) and not (but_helpers and is_helper(pid))]
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    return len(found)


def is_helper(pid: int) -> bool:
    """Return whether this is Python's resource tracker, which removes what killed processes left in ``/dev/shm``."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return b"resource_tracker" in file.read()
    except OSError:
        return False


def processes() -> Iterator[Tuple[int, Dict[str, str]]]:
    """Yield this user's processes, except this one, with their environments."""
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            if os.stat("/proc/" + name).st_uid != os.getuid():
                continue
            with open(f"/proc/{name}/environ", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        pairs = [word.decode(errors="replace").partition("=") for word in words if word]
        yield int(name), {key: value for key, _, value in pairs}


def keep() -> None:
    """Start the nanny on request, and end it when the connection closes, the machine goes away or the nanny exits."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    leaving: List[bool] = []
    signal.signal(signal.SIGTERM, lambda *_: leaving.append(True))
    tell({"hello": hello()})
    lines = Lines()
    nanny = None
    asked: Dict[str, Any] = {}
    heard, silent_s = time.monotonic(), 60.0
    while not lines.ended and not leaving and time.monotonic() - heard < silent_s:
        for line in lines.take(_LOOK_S):
            heard = time.monotonic()
            if line and nanny is None:
                asked = json.loads(line.decode())["start"]
                silent_s = asked["silent_s"]
                nanny = start(asked)
                tell({"started": nanny.process.pid})
        if nanny is not None and nanny.process.poll() is not None:
            break
    if nanny is None:
        return
    if leaving:
        leave(nanny)
    status = nanny.process.poll()
    end(nanny, asked["environment"][FAMILY], asked["environment"][KEEPER])
    tell({"ended": status, "words": nanny.words()})
