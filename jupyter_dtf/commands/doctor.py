"""``jupyter dtf doctor``: checks this machine, and prints the findings about it or about a cluster's hosts."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import textwrap
from collections import Counter

from ..backend.host import self_check
from ..backend.machine import children, facts, paths
from ..backend.machine.gpus import read_gpus
from ..backend.machine.versions import read_versions
from ..backend.task.ports import guarded_port
from ..backend.viewer import connections, crashed
from ..errors import Unavailable
from ..schema.checkup import ERROR, OK, WARNING, Checkup, Finding, HostCheckup, PairSpeed
from ..schema.sizes import bytes_, seconds_
from .arguments import table

_PROBE = """\
import json, sys
if sys.path[:1] == [""]:
    del sys.path[0]
import keras, tensorflow
print(json.dumps([len(tensorflow.config.list_physical_devices("GPU"))]))
"""
_IMPORT_S = 120.0
_NARROW = 60


def of_this_machine(*, clean: bool = False) -> Checkup:
    """Check this machine. With ``clean``, remove what crashed clusters have left behind."""
    versions, gpus = read_versions(), read_gpus()
    failure = ""
    if versions["TensorFlow"] and versions["Keras"]:
        failure, seen = _imported()
    findings = [
        Finding(
            about="versions", text=", ".join(f"{name} {version or '(none)'}" for name, version in versions.items())
        ),
        *self_check.quick(versions, gpus, facts.free_spaces(), failure),
    ]
    if gpus and not failure and versions["TensorFlow"] and seen < len(gpus):
        text = f"TensorFlow sees {seen} of {len(gpus)} GPUs; set TF_CPP_MIN_LOG_LEVEL=0 to see the reason in its log"
        findings.append(Finding(about="GPUs", text=text, level=WARNING))
    findings += [*_writable(), *_ports(), *_crashed(clean), *_clusters()]
    return Checkup(hosts=[HostCheckup(name=paths.machine_name(), findings=findings)])


def _imported() -> tuple[str, int]:
    """Return why TensorFlow and Keras cannot be imported (empty if they can), and the number of GPUs that they see."""
    command = [sys.executable, "-c", _PROBE]
    quiet = children.environment({"TF_CPP_MIN_LOG_LEVEL": "3"})
    try:
        done = subprocess.run(command, env=quiet, capture_output=True, text=True, timeout=_IMPORT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"TensorFlow could not be imported within {_IMPORT_S:g} s", 0
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        return f"TensorFlow and Keras cannot be imported: {last}", 0
    return "", int(json.loads(done.stdout.splitlines()[-1])[0])


def _writable() -> list[Finding]:
    try:
        paths.check_writable()
    except Unavailable as error:
        return [Finding(about="files", text=str(error), level=ERROR)]
    return [Finding(about="files", text=f"runs are kept in {paths.data_dir()}")]


def _ports() -> list[Finding]:
    if why := guarded_port.why_not():
        text = f"other users can connect to TensorFlow's servers on this machine: {why}. Do not share the machine, and "
        return [Finding(about="ports", text=text + "put its ports behind a firewall", level=WARNING)]
    return [Finding(about="ports", text="the ports of TensorFlow's servers are closed to other users")]


def _crashed(clean: bool) -> list[Finding]:
    """Return findings about the files that crashed clusters have left behind on this machine."""
    found = []
    for connection in crashed.find():
        text = crashed.in_words(connection)
        if clean and crashed.clear(connection):
            found.append(Finding(about="left over", text=f"removed: {text}"))
        else:
            found.append(Finding(about="left over", text=text, level=WARNING))
    found += self_check.left_over(crashed.living_tokens(), clean=clean)
    return found or [Finding(about="left over", text="nothing")]


def _clusters() -> list[Finding]:
    """Return findings about the running clusters, whose hosts are checked separately."""
    names = [name for name, each in connections.read_all().items() if each.is_alive]
    return [
        Finding(about="cluster", text=f"{name} is running; jupyter dtf doctor {name} checks its hosts")
        for name in names
    ]


# -- printed -------------------------------------------------------------------------------------------------------


def in_words(checkup: Checkup, width: int = 0) -> str:
    """Format the findings as lines of text, at most ``width`` characters wide; 0: unlimited."""
    parts = []
    if checkup.cluster:
        count = len(checkup.hosts)
        head = f"Cluster {checkup.cluster} ({checkup.kind}), {count} host{'s' * (count != 1)}"
        parts.append("\n".join([head, *_lines(checkup.findings, width)]))
    for host in checkup.hosts:
        at = " on ".join(filter(None, [host.address, host.interface]))
        title = "Host" if checkup.cluster else "This machine,"
        parts.append("\n".join([f"{title} {host.name}{f' ({at})' if at else ''}", *_lines(host.findings, width)]))
    if checkup.network:
        parts.append(_network(checkup.network))
    return "\n\n".join([*parts, _conclusion(checkup)])


def _lines(findings: list[Finding], width: int) -> list[str]:
    lines = []
    for finding in findings:
        mark = finding.level if finding.level == OK else finding.level.upper()
        head = f"  {mark:<8} {finding.about:<11} "
        room = width - len(head)
        texts = textwrap.wrap(finding.text, room, break_on_hyphens=False) if room >= _NARROW else [finding.text]
        lines += [f"{head}{texts[0]}", *(" " * len(head) + text for text in texts[1:])]
    return lines


def _network(pairs: list[PairSpeed]) -> str:
    rows = [("FROM", "TO", "SENDS", "ROUND TRIP")]
    rows += [
        (pair.source, pair.target, f"{bytes_(pair.bytes_per_second)}/s", seconds_(pair.latency_seconds))
        for pair in pairs
    ]
    return table(rows)


def _conclusion(checkup: Checkup) -> str:
    found = [*checkup.findings, *(finding for host in checkup.hosts for finding in host.findings)]
    counts = Counter(finding.level for finding in found)
    if checkup.is_well:
        return "No problems were found."
    told = [
        f"{counts[level]} {what}{'s' * (counts[level] > 1)}"
        for level, what in ((ERROR, "error"), (WARNING, "warning"))
        if counts[level]
    ]
    left = any(finding.about == "left over" and finding.level != OK for finding in found)
    return f"{' and '.join(told)}.{' --clean removes the leftovers.' if left else ''}"


def width_of_terminal() -> int:
    """Return the width of the terminal; 0 if output is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else 0
