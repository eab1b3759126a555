"""Checkpoints at URLs that fsspec or ``tf.io.gfile`` supports, with the same functions as ``files``.

Such places have no atomic renames and no locks. A checkpoint is written locally and uploaded, with its manifest last:
without a manifest it does not count as a checkpoint. It is removed in the opposite order. A run's directory has no
other writers.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

from ....errors import InvalidInput, NotFound
from ....schema.checkpoint import MANIFEST, CheckpointInfo, Manifest
from . import files, gfile_places
from .shards import Contents

_STEP = re.compile(r"[0-9]{1,19}", re.ASCII)


def is_url(place: object) -> bool:
    """Return whether this is a URL rather than a local path."""
    return isinstance(place, str) and "://" in place


def check(url: str) -> None:
    """Raise InvalidInput unless fsspec or TensorFlow supports such URLs here."""
    opened(url)


def write(directory: str, manifest: Manifest, arrays: Contents, state: bytes) -> str:
    """Write a checkpoint, as ``files.write``. Returns its URL. Raises whatever fsspec or TensorFlow raises."""
    system, root = opened(directory)
    with tempfile.TemporaryDirectory(prefix="dtf-checkpoint-") as here:
        made = files.write(Path(here), manifest, arrays, state)
        target = f"{root}/{manifest.step}"
        _remove(system, target)
        system.makedirs(target, exist_ok=True)
        for name in [*sorted(manifest.files), MANIFEST]:
            system.put_file(str(made / name), f"{target}/{name}")
    return f"{directory}/{manifest.step}"


def known(directory: str) -> list[CheckpointInfo]:
    """Return the checkpoints in a place in order of steps, without reading their data. Other files are ignored."""
    system, root = opened(directory)
    found = []
    for step in _steps(system, root):
        with contextlib.suppress(InvalidInput, NotFound):
            url = f"{directory}/{step}"
            found.append(_manifest(system, f"{root}/{step}", url).info(url))
    return sorted(found, key=lambda info: info.step)


def remove(url: str) -> None:
    """Remove a checkpoint, beginning with its manifest."""
    _remove(*opened(url))


def clean(directory: str) -> None:
    """Remove what killed writers have left behind, which has no manifest."""
    system, root = opened(directory)
    for step in _steps(system, root):
        if not system.exists(f"{root}/{step}/{MANIFEST}"):
            _remove(system, f"{root}/{step}")


def newest(url: str, step: int | None = None) -> files.Stored:
    """Download the checkpoint at ``url``, or the newest intact one in that place, or that of ``step``.

    Raises:
        NotFound: If there is none.
        InvalidInput: If all are damaged.
    """
    system, root = opened(url)
    is_one = system.exists(f"{root}/{MANIFEST}")
    return files.newest_of(url, step, is_one=is_one, known=known, read=lambda found: _fetch(*opened(found), found))


def opened(url: str) -> tuple[Any, str]:
    """Return the file system, fsspec's or else TensorFlow's, and the path of the place in it. Raises InvalidInput."""
    from fsspec.core import url_to_fs  # most tasks do not need it

    try:
        system, root = url_to_fs(url)
    except (ValueError, ImportError) as error:
        if gfile_places.reaches(url):
            return gfile_places.opened(url)
        raise InvalidInput(
            "`directory` must be a place that fsspec or tf.io.gfile can access from the chief's machine, got "
            f"{url}: {error}",
            field="directory",
        ) from error
    system.invalidate_cache()  # others write there
    return system, str(root).rstrip("/")


def _steps(system: Any, root: str) -> list[str]:
    try:
        names = [str(path).rstrip("/").rpartition("/")[2] for path in system.ls(root, detail=False)]
    except FileNotFoundError:
        return []
    return [name for name in names if _STEP.fullmatch(name)]


def _manifest(system: Any, path: str, url: str) -> Manifest:
    try:
        data = system.cat_file(f"{path}/{MANIFEST}")
    except FileNotFoundError:
        raise NotFound(f"A checkpoint must be a directory with a {MANIFEST}, got {url}, which has none") from None
    return files.manifest_of(data, url)


def _fetch(system: Any, path: str, url: str) -> files.Stored:
    """Download a checkpoint. The local copy is deleted together with the returned object."""
    names = [*_manifest(system, path, url).files, MANIFEST]
    here = Path(tempfile.mkdtemp(prefix="dtf-checkpoint-"))
    try:
        for name in names:
            _get(system, f"{path}/{name}", here / name, url)
        stored = files.Stored(here, shown=url)
    except BaseException:
        shutil.rmtree(here, ignore_errors=True)
        raise
    weakref.finalize(stored, shutil.rmtree, here, ignore_errors=True)
    return stored


def _get(system: Any, path: str, here: Path, url: str) -> None:
    try:
        system.get_file(path, str(here))
    except FileNotFoundError as error:
        raise InvalidInput(f"A checkpoint must have all of its files, got {url} without {here.name}") from error


def _remove(system: Any, path: str) -> None:
    for what in (f"{path}/{MANIFEST}", path):
        with contextlib.suppress(FileNotFoundError):
            system.rm(what, recursive=what == path)
