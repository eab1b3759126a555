"""The keeper: the process on a host that SSH starts. It starts the Dask worker, and ends it with the connection.

It is sent as text to whatever Python the host has, so it is of the standard library alone, and of Python 3.6. The other
side says, a line of JSON each on standard input:

* ``{"start": {"module", "settings", "environment", "silent_s"}}``: start the nanny;
* an empty line, every few seconds, that it is there;
* nothing more, for ``silent_s`` or because the connection has ended: then all that was started here ends.

It answers ``{"hello": {...}}`` at once, which says what Python this is and what it lacks, ``{"started": pid}``, and at
the end ``{"ended": status, "words": what the nanny has said last}``.
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
"""How long tasks may take to go on elsewhere when the machine is to go: others may have less patience with it."""
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
    """What is here."""
    if sys.path and sys.path[0] == "":
        del sys.path[0]
    found: Dict[str, Any] = {
        "program": sys.executable,
        "python": list(sys.version_info[:3]),
        "machine": socket.gethostname(),
        "identity": identity(),
        "lacks": "",
    }
    if sys.version_info < NEEDED:
        found["lacks"] = "Python must be 3.10 or newer, and is {}.{}".format(*sys.version_info[:2])
        return found
    if not sys.platform.startswith("linux"):
        found["lacks"] = "Tasks are forked from a warm process, which needs Linux"
        return found
    import importlib.util

    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        found["lacks"] = f"there is no {' and no '.join(missing)}: {sys.executable} -m pip install jupyter-dtf[cpu]"
        return found
    return found


def identity() -> str:
    """A word that machines have in common only if they are one, and share memory."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read().strip()
        return f"{boot} {os.stat('/dev/shm').st_dev}"
    except OSError:
        return f"{socket.gethostname()} {time.time()}"


def tell(message: Dict[str, Any]) -> None:
    """One line to the other side, as long as there is one."""
    try:
        os.write(1, (json.dumps(message) + "\n").encode())
    except OSError:
        pass


class Lines:
    """Lines of standard input, without waiting for more than there is."""

    def __init__(self) -> None:
        self.rest = b""
        self.ended = False

    def take(self, timeout: float) -> List[bytes]:
        """Those that have come, after at most ``timeout`` seconds of waiting for the first."""
        if b"\n" not in self.rest and not self.ended and select.select([0], [], [], timeout)[0]:
            data = os.read(0, 1 << 16)
            self.ended = not data
            self.rest += data
        *lines, self.rest = self.rest.split(b"\n")
        return lines


class Nanny:
    """The process that was started, and the last of what it says."""

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
    """In the nanny before it is one: it ends with this process, and takes signals as any program does."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_DEATH, signal.SIGKILL)


def start(asked: Dict[str, Any]) -> Nanny:
    """Start the nanny. Its settings, secrets among them, go by its standard input."""
    from jupyter_dtf.backend.machine import paths  # this very host's, which has the package

    token = asked["environment"][FAMILY]
    # Not `-m` alone, which puts the working directory on the path.
    flags = ["-P", "-m"] if sys.version_info >= (3, 11) else ["-c", RUN_MODULE]
    process = subprocess.Popen(
        [sys.executable, *flags, asked["module"]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment(asked["environment"]),
        preexec_fn=begin,  # noqa: PLW1509 - only the listener of an earlier one could be another thread
        start_new_session=True,
    )
    nanny = Nanny(process, [str(parent / token) for parent in paths.family_parents()])
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(asked["settings"]).encode())
        process.stdin.close()
    except OSError:
        pass  # it has ended, which is seen
    return nanny


def environment(more: Dict[str, str]) -> Dict[str, str]:
    made = dict(os.environ)
    made.update(more)
    path = [entry for entry in made.pop("PYTHONPATH", "").split(os.pathsep) if os.path.normpath(entry or ".") != "."]
    if path:
        made["PYTHONPATH"] = os.pathsep.join(path)
    return made


def end(started: Nanny, token: str, mine: str) -> None:
    """End all that was started from here. What the machine's other keepers have started stays."""
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
    until(lambda: sum(mine_alone(told) for _, told in processes()))  # the helpers clear up after the others, and end
    kill(mine_alone)
    if nanny.poll() is None:
        nanny.kill()
        nanny.wait()
    # Who has started the warm process need not be who needs it. It ends by itself and clears up, unless it was stopped.
    deadline = time.monotonic() + GRACE_S / 2
    while family(token) and not others(token, mine) and time.monotonic() < deadline:
        time.sleep(0.05)
    if others(token, mine):
        return
    until(lambda: kill(lambda told: told.get(FAMILY, "").split("/")[0] == token))
    for directory in started.directories:
        shutil.rmtree(directory, ignore_errors=True)


def leave(started: Nanny) -> None:
    """The machine is to go: the nanny ends when the tasks that are here go on elsewhere."""
    started.process.send_signal(signal.SIGTERM)
    try:
        started.process.wait(LEAVE_S)
    except subprocess.TimeoutExpired:
        pass


def until(left: Callable[[], int]) -> None:
    """Look again until none is left, or for two seconds."""
    for _ in range(100):
        if not left():
            return
        time.sleep(0.02)


def family(token: str) -> List[int]:
    return [pid for pid, told in processes() if told.get(FAMILY, "").split("/")[0] == token]


def others(token: str, mine: str) -> bool:
    """Whether somebody else here needs the warm process of this cluster."""
    return any(told.get(FAMILY) == token and told.get(KEEPER) != mine for _, told in processes())


def kill(wanted: Callable[[Dict[str, str]], bool], but_helpers: bool = False) -> int:
    """Kill the processes whose environment is ``wanted``. Returns how many there were."""
    found = [pid for pid, told in processes() if wanted(told) and not (but_helpers and is_helper(pid))]
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    return len(found)


def is_helper(pid: int) -> bool:
    """Whether it is Python's own, which removes what killed processes leave in ``/dev/shm``."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return b"resource_tracker" in file.read()
    except OSError:
        return False


def processes() -> Iterator[Tuple[int, Dict[str, str]]]:
    """This user's processes but this one, with their environments."""
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
    """The whole life of the keeper."""
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
