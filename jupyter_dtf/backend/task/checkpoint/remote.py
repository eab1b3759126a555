"""Checkpoints at URLs that fsspec or ``tf.io.gfile`` supports, with the same functions as ``files``.

Remote storage has no atomic renames and no locks. A checkpoint is written locally and uploaded, with its manifest last:
a directory without a manifest is not a checkpoint. Removal begins with the manifest. A checkpoint that replaces
another one of the same step is uploaded to its own subdirectory of the step's directory (``files_in``), and its
manifest then replaces the old one, so the old checkpoint stays complete until the new one is complete. No other process
writes to a run's directory.
"""

from __future__ import annotations

import contextlib
import logging
import re
import secrets
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

from ....errors import InvalidInput, NotFound
from ....schema import private_files
from ....schema.base import encode_json
from ....schema.checkpoint import MANIFEST, CheckpointInfo, Manifest
from . import files, gfile_places
from .shards import Contents

_STEP = re.compile(r"[0-9]{1,19}", re.ASCII)
_ASIDE = re.compile(r"again-[0-9a-f]{8}", re.ASCII)
"""The names of the subdirectories that contain the files of a checkpoint that replaced another one of its step."""

logger = logging.getLogger(__name__)


def is_url(place: object) -> bool:
    """Return whether ``place`` is a URL rather than a local path."""
    return isinstance(place, str) and "://" in place


def check(url: str) -> None:
    """Raise InvalidInput unless fsspec or TensorFlow supports ``url`` here."""
    opened(url)


def write(directory: str, manifest: Manifest, arrays: Contents, state: bytes) -> str:
    """Write a checkpoint, like ``files.write``. Returns its URL. Raises whatever fsspec or TensorFlow raises."""
    system, root = opened(directory)
    with tempfile.TemporaryDirectory(prefix="dtf-checkpoint-") as here:
        made = files.write(Path(here), manifest, arrays, state)
        target = f"{root}/{manifest.step}"
        url = f"{directory}/{manifest.step}"
        before = _manifest_there(system, target)
        if before is None:
            _remove(system, target)  # left behind by a killed writer
        else:
            manifest.files_in = f"again-{secrets.token_hex(4)}"
            private_files.write_file(made / MANIFEST, encode_json(manifest))
        place = _files_at(target, manifest, url)
        system.makedirs(place, exist_ok=True)
        for name in sorted(manifest.files):
            system.put_file(str(made / name), f"{place}/{name}")
        try:
            system.put_file(str(made / MANIFEST), f"{target}/{MANIFEST}")
        except BaseException:
            if before is not None:
                _put_back(system, target, before, Path(here))
            raise
        if before is not None:
            _clear(system, target, manifest)
    return url


def known(directory: str) -> list[CheckpointInfo]:
    """Return the checkpoints in a directory, ordered by step, without reading their data. Other files are ignored."""
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
    """Remove the files that killed writers have left behind. No manifest lists these files."""
    system, root = opened(directory)
    for step in _steps(system, root):
        target = f"{root}/{step}"
        try:
            manifest = _manifest(system, target, f"{directory}/{step}")
        except NotFound:
            _remove(system, target)
        except InvalidInput:  # damaged, or from a newer version, so the files that it needs are unknown
            continue
        else:
            _clear(system, target, manifest)


def newest(url: str, step: int | None = None) -> files.Stored:
    """Download the checkpoint at ``url``; or, if ``url`` is a directory of checkpoints, the newest intact checkpoint in
    it or the checkpoint of ``step``.

    Raises:
        NotFound: If there is no such checkpoint.
        InvalidInput: If every such checkpoint is damaged.
    """
    system, root = opened(url)
    is_one = system.exists(f"{root}/{MANIFEST}")
    return files.newest_of(url, step, is_one=is_one, known=known, read=lambda found: _fetch(*opened(found), found))


def opened(url: str) -> tuple[Any, str]:
    """Return the file system for ``url`` (fsspec's, or TensorFlow's if fsspec has none) and the path in it. Raises
    InvalidInput if neither supports the URL.
    """
    from fsspec.core import url_to_fs  # imported here, because most tasks do not need fsspec

    try:
        system, root = url_to_fs(url)
    except (ValueError, ImportError) as error:
        if gfile_places.reaches(url):
            return gfile_places.opened(url)
        raise InvalidInput(
            "`directory` must be a location that fsspec or tf.io.gfile can access from the chief's machine, got "
            f"{url}: {error}",
            field="directory",
        ) from error
    system.invalidate_cache()  # other processes write there
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


def _manifest_there(system: Any, path: str) -> bytes | None:
    try:
        return bytes(system.cat_file(f"{path}/{MANIFEST}"))
    except FileNotFoundError:
        return None


def _files_at(path: str, manifest: Manifest, url: str) -> str:
    """Return the path of the directory with a checkpoint's files. Raises InvalidInput if ``files_in`` is not valid."""
    if manifest.files_in and not _ASIDE.fullmatch(manifest.files_in):
        raise InvalidInput(
            f"`files_in` of a {MANIFEST} must be empty or again- followed by 8 hexadecimal digits, got "
            f"{manifest.files_in!r:.100} in {url}"
        )
    return f"{path}/{manifest.files_in}" if manifest.files_in else path


def _put_back(system: Any, path: str, manifest: bytes, here: Path) -> None:
    """Restore a manifest that may have been damaged by a failed attempt to replace it."""
    aside = here / "before.json"
    try:
        aside.write_bytes(manifest)
        system.put_file(str(aside), f"{path}/{MANIFEST}")
    except Exception:  # the caller raises the original error
        logger.exception("The %s of the previous checkpoint could not be restored in %s", MANIFEST, path)


def _clear(system: Any, path: str, manifest: Manifest) -> None:
    """Remove files of other checkpoints of the same step from its directory. Errors are only logged."""
    kept = {MANIFEST, manifest.files_in} if manifest.files_in else {MANIFEST, *manifest.files}
    try:
        for found in system.ls(path, detail=False):
            name = str(found).rstrip("/").rpartition("/")[2]
            is_directory = _ASIDE.fullmatch(name) is not None
            if name not in kept and (is_directory or manifest.files_in):
                with contextlib.suppress(FileNotFoundError):
                    system.rm(f"{path}/{name}", recursive=is_directory)
    except Exception:  # the new checkpoint is complete; the next call tries to remove these files again
        logger.exception("Replaced files in %s could not be removed", path)


def _fetch(system: Any, path: str, url: str) -> files.Stored:
    """Download a checkpoint. The local copy is deleted together with the returned object."""
    manifest = _manifest(system, path, url)
    place = _files_at(path, manifest, url)
    here = Path(tempfile.mkdtemp(prefix="dtf-checkpoint-"))
    try:
        for name in manifest.files:
            _get(system, f"{place}/{name}", here / name, url)
        _get(system, f"{path}/{MANIFEST}", here / MANIFEST, url)
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
