"""Findings about a host: disk space, GPUs, TensorFlow, its clock. Pure.

The same findings are reported before a gang starts and by ``jupyter dtf doctor``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...schema.checkup import ERROR, OK, WARNING, Finding, FreeSpace
from ...schema.sizes import bytes_, seconds_

FULL_BYTES = 1 << 20
LITTLE_BYTES = 256 << 20
LITTLE_MEMORY_BYTES = 32 << 20
"""Less free space than this in ``/dev/shm`` causes a warning; in containers, ``/dev/shm`` has 64 MiB."""
CLOCK_S = 1.0
"""The largest tolerated clock offset. With a larger one, plots over time and the order of events are wrong."""
_CPU_ONLY = "tensorflow-cpu"


def of_free_space(spaces: Iterable[FreeSpace]) -> list[Finding]:
    """Return a finding for each directory that tasks or hosts write to."""
    return [_of_one(space) for space in spaces]


def _of_one(space: FreeSpace) -> Finding:
    little = LITTLE_MEMORY_BYTES if space.path.startswith("/dev/shm") else LITTLE_BYTES
    level = ERROR if space.free_bytes < FULL_BYTES else WARNING if space.free_bytes < little else OK
    text = f"{bytes_(space.free_bytes)} of {bytes_(space.total_bytes)} are free in {space.path}, for {space.what}"
    return Finding(
        about="disk", text=f"{text}. Free some space, or {space.advice}" if level != OK else text, level=level
    )


def of_gpus(visible: str | None, there: Sequence[str], distribution: str) -> list[Finding]:
    """Return findings about the GPUs of a host.

    ``there``: the GPUs' names. ``visible``: the value of CUDA_VISIBLE_DEVICES, if set. ``distribution``: the package
    that installed TensorFlow.
    """
    asked = [entry.strip() for entry in (visible or "").split(",") if entry.strip()]
    if asked[:1] in (["-1"], ["NoDevFiles"]):
        asked = []
    found = []
    if missing := asked[len(there) :]:
        what = f"GPU{'s' * (len(missing) > 1)} {', '.join(missing)}"
        text = f"{what} {'were' if len(missing) > 1 else 'was'} requested (CUDA_VISIBLE_DEVICES={visible}), but "
        text += f"{'are' if len(missing) > 1 else 'is'} missing: nvidia-smi on the host lists the existing GPUs"
        found.append(Finding(about="GPUs", text=text, level=ERROR))
    if there and distribution == _CPU_ONLY:
        text = "The installed TensorFlow computes only on CPUs (tensorflow-cpu), but the host has GPUs. "
        found.append(Finding(about="GPUs", text=text + "Install jupyter-dtf[gpu] instead", level=WARNING))
    if not found:
        text = ", ".join(there) if there else "none, and none was requested"
        found.append(Finding(about="GPUs", text=text))
    return found


def of_tensorflow(versions: Mapping[str, str], failure: str, *, is_imported: bool) -> list[Finding]:
    """Return findings about TensorFlow and Keras.

    ``failure``: the reason why TensorFlow could not be imported, unless ``is_imported``.
    """
    missing = [package for package in ("TensorFlow", "Keras") if not versions.get(package)]
    if failure and not missing:
        return [Finding(about="TensorFlow", text=failure, level=ERROR)]
    if missing and not is_imported:
        text = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed, so no task can start. "
        return [Finding(about="TensorFlow", text=text + "Install jupyter-dtf[cpu] or jupyter-dtf[gpu]", level=ERROR)]
    there = [f"{package} {versions.get(package) or '(unknown version)'}" for package in ("TensorFlow", "Keras")]
    return [Finding(about="TensorFlow", text=", ".join(there))]


def of_clock(ahead_s: float, within_s: float) -> Finding:
    """Return a finding about the offset of a host's clock from the cluster's, known to within ``within_s``.

    A positive offset means that the host's clock is ahead.
    """
    apart = abs(ahead_s) - within_s
    if apart <= CLOCK_S:
        return Finding(about="clock", text=f"within {seconds_(max(abs(ahead_s), within_s))} of the cluster's")
    text = f"{seconds_(abs(ahead_s))} {'ahead of' if ahead_s > 0 else 'behind'} the cluster's: times in plots and "
    text += "events are wrong. Synchronize the clocks of all machines with NTP"
    return Finding(about="clock", text=text, level=WARNING)


def worse(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that are warnings or errors."""
    return [finding for finding in findings if finding.level != OK]


def pairs_to_try(count: int, most: int = 16) -> list[tuple[int, int]]:
    """Return the pairs of hosts that try to connect, as (source, target).

    These are all pairs or, with more than ``most`` hosts, those with positions that differ by 1, 2, 4...

    Every host is the source and the target of some connections. A thousand hosts make ten thousand connections, not a
    million.
    """
    if count <= most:
        return [(source, target) for source in range(count) for target in range(count) if source != target]
    steps = [1 << power for power in range((count - 1).bit_length())]
    found = {(source, (source + step) % count) for source in range(count) for step in steps}
    return sorted(found)


def rounds(count: int) -> list[list[tuple[int, int]]]:
    """Return all ordered pairs of hosts, in rounds in which each host is in at most one pair."""
    players: list[int | None] = [*range(count), *([None] if count % 2 else [])]
    found: list[list[tuple[int, int]]] = []
    for _ in range(len(players) - 1):
        half = len(players) // 2
        met = [
            (a, b)
            for a, b in zip(players[:half], reversed(players[half:]), strict=True)
            if a is not None and b is not None
        ]
        found += [met, [(b, a) for a, b in met]]
        players = [players[0], players[-1], *players[1:-1]]
    return [each for each in found if each]
