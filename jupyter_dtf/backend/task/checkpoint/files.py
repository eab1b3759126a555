"""The files of checkpoints, which appear atomically even if their writer is killed.

``<directory>/<step>/`` contains a TensorFlow checkpoint (``variables.index``, and one ``variables.data-...`` for each
task that wrote a part), readable with ``tf.train.load_checkpoint``; ``state.pickle`` with everything that is not an
array; and ``manifest.json`` with the digests. A checkpoint is written to ``<directory>/.writing-...``, which is then
synced and renamed. The writer holds a lock (``flock``) on the ``.writing-...`` directory. If such a directory is not
locked, its writer was killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import pickle
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np

from ....errors import DtfError, InvalidInput, NotFound
from ....schema import private_files
from ....schema.base import decode_json, encode_json
from ....schema.checkpoint import FORMAT, MANIFEST, CheckpointInfo, FileDigest, Manifest, StoredVariable
from .shards import Contents, Owners, Sharded
from .snapshots import held_by, tensor_of

VARIABLES = "variables"
STATE = "state.pickle"
_NAME = re.compile(r"[0-9]{1,19}", re.ASCII)
_WRITING, _REPLACED = ".writing-", ".replaced-"
_CHUNK = 1 << 20


def write(directory: Path, manifest: Manifest, arrays: Contents, state: bytes) -> Path:
    """Write a checkpoint of step ``manifest.step``, replacing an existing one of that step.

    Args:
        directory: The directory of the checkpoints.
        manifest: The manifest. This function fills in its variables and files.
        arrays: All arrays, keyed by name; or a ``Sharded`` with the chief's arrays and the tasks that write the others.
        state: The pickled values that are not arrays.

    Returns:
        The path of the checkpoint.

    Raises:
        OSError: If the checkpoint cannot be written. Errors from TensorFlow and from tasks that write a part are also
            raised. No files are left behind in any of these cases.
    """
    aside = _make_aside(directory, str(manifest.step))
    try:
        with _locked(aside):
            _fill(aside, manifest, arrays, state)
            return _put(aside, directory, str(manifest.step))
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def is_shared_with(owners: Owners, directory: Path) -> bool:
    """Return whether all ``owners`` can read this task's directory, and this task can read the files that they write
    there.

    Each owner copies a temporary file with random bytes. Raises RuntimeError if an owner is lost. The message names the
    owner.
    """
    import tensorflow as tf

    try:
        aside = _make_aside(directory, "word")
    except OSError:
        return False
    word = secrets.token_bytes(32)
    copies = [aside / f"copy-{number}" for number in range(owners.count)]
    try:
        with _locked(aside):
            private_files.write_file(aside / "word", word)
            owners.copy(aside / "word", copies)
            return all(copy.lstat().st_uid == os.getuid() and private_files.read_file(copy) == word for copy in copies)
    except (OSError, DtfError, tf.errors.OpError):
        return False
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def known(directory: Path) -> list[CheckpointInfo]:
    """Return the checkpoints in a directory, ordered by step, without reading their data. Other files are ignored."""
    found = {}
    with contextlib.suppress(OSError):
        for path in sorted(directory.iterdir()):
            with contextlib.suppress(InvalidInput, NotFound, OSError):
                if step := _step_of(path):
                    found[step] = read_manifest(path).info(path)
    return [found[step] for step in sorted(found, key=int)]


def remove(path: Path) -> None:
    """Remove a checkpoint atomically."""
    aside = path.with_name(f"{_WRITING}{path.name}-{secrets.token_hex(4)}")
    path.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def clean(directory: Path) -> None:
    """Remove the files of killed writers, and restore a checkpoint that a killed writer was about to replace."""
    with contextlib.suppress(OSError):
        for path in list(directory.iterdir()):
            if path.name.startswith(_REPLACED):
                _put_back(path)
            elif path.name.startswith(_WRITING):
                _remove_unless_locked(path)


def _put_back(path: Path) -> None:
    step = path.with_name(path.name.removeprefix(_REPLACED))
    if step.exists():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.rename(step)


def _remove_unless_locked(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    except BlockingIOError:  # the writer of this directory is alive
        pass
    finally:
        os.close(descriptor)


class Stored:
    """A checkpoint to read. Its files have been verified against their digests.

    ``shown`` is the location to report instead of ``path``.
    """

    def __init__(self, path: Path, *, shown: str = "") -> None:
        self.path = path
        self.passed_over: list[str] = []
        """The problems of newer checkpoints that were skipped in favor of this one."""
        self._shown = shown or str(path)
        self.manifest = read_manifest(path)
        for name, digest in self.manifest.files.items():
            _check(path / name, digest)

    @property
    def info(self) -> CheckpointInfo:
        return self.manifest.info(self._shown)

    def arrays(self) -> dict[str, Any]:
        """Return all arrays, keyed by name."""
        import tensorflow as tf

        reader = tf.train.load_checkpoint(str(self.path / VARIABLES))
        return {stored.key: reader.get_tensor(stored.key) for stored in self.manifest.variables}

    def state(self) -> Any:
        """Return the values that are not arrays. Unpickling can run code, so only this user's checkpoints are read."""
        data = private_files.read_file(self.path / STATE)
        try:
            return pickle.loads(data)
        except Exception as error:
            raise InvalidInput(
                f"The state of the checkpoint {self.path} cannot be unpickled. Its classes must be importable here: "
                f"{type(error).__name__}: {error}"
            ) from error


def read_manifest(path: Path) -> Manifest:
    """Read a checkpoint's manifest.

    Raises:
        NotFound: If there is no manifest.
        InvalidInput: If the manifest does not belong to this user, or cannot be read by this version.
    """
    try:
        owner = (path / MANIFEST).lstat().st_uid
        data = private_files.read_file(path / MANIFEST)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"A checkpoint must be a directory with a {MANIFEST}, got {path}, which has none") from None
    except OSError as error:
        raise InvalidInput(f"The checkpoint {path} cannot be read: {error}") from error
    if owner != os.getuid():
        raise InvalidInput(
            f"A checkpoint must belong to this user, because unpickling it runs code, got {path} of uid {owner}"
        )
    return manifest_of(data, path)


def manifest_of(data: bytes, path: object) -> Manifest:
    """Decode the manifest of the checkpoint at ``path``. Raises InvalidInput if this version cannot read it."""
    try:
        version = json.loads(data).get("format")
    except (ValueError, AttributeError):
        raise InvalidInput(f"A checkpoint's {MANIFEST} must be a JSON object, got {data!r:.100} in {path}") from None
    if version != FORMAT:
        raise InvalidInput(f"A checkpoint must be of format {FORMAT}, got {path} of format {version!r:.100}")
    try:
        manifest = decode_json(data, Manifest)
    except InvalidInput as error:
        raise InvalidInput(f"{path}/{MANIFEST}: {error}", field=error.field) from error
    if not {STATE, f"{VARIABLES}.index"} <= manifest.files.keys():
        raise InvalidInput(f"A checkpoint must have {STATE} and {VARIABLES}.index, got {path}, which does not")
    for name in manifest.files:
        if name != os.path.basename(name):
            raise InvalidInput(
                f"The files of a checkpoint must be in the directory of its {MANIFEST}, got {name!r:.100} in {path}"
            )
    return manifest


def newest(path: Path, step: int | None = None) -> Stored:
    """Return the checkpoint at ``path``; or, if ``path`` is a directory of checkpoints, the newest intact checkpoint in
    it or the checkpoint of ``step``.

    Raises:
        NotFound: If there is no such checkpoint.
        InvalidInput: If every such checkpoint is damaged.
    """
    is_one = (path / MANIFEST).exists()
    return newest_of(path, step, is_one=is_one, known=known, read=lambda found: Stored(Path(found)))


def newest_of(
    place: Any,
    step: int | None,
    *,
    is_one: bool,
    known: Callable[[Any], list[CheckpointInfo]],
    read: Callable[[str], Stored],
) -> Stored:
    """Find the checkpoint that ``newest`` describes, in a local or remote directory.

    ``is_one`` is whether ``place`` is itself a checkpoint. ``known`` lists checkpoints, and ``read`` opens one.
    """
    if is_one:
        stored = read(str(place))
        if step is not None and stored.manifest.step != step:
            raise NotFound(f"The checkpoint must be that of step {step}, got {place} of step {stored.manifest.step}")
        return stored
    found = [info for info in known(place) if step is None or info.step == step]
    if not found:
        which = "" if step is None else f" of step {step}"
        raise NotFound(f"There is no complete checkpoint{which} in {place}")
    wrong: list[str] = []
    for info in reversed(found):
        try:
            stored = read(info.path)
        except (InvalidInput, NotFound, OSError) as error:
            wrong.append(str(error))
        else:
            stored.passed_over = wrong
            return stored
    raise InvalidInput(wrong[0])


def _make_aside(directory: Path, name: str) -> Path:
    private_files.make_dir(directory)
    aside = directory / f"{_WRITING}{name}-{secrets.token_hex(4)}"
    aside.mkdir(mode=0o700)
    aside.chmod(0o700)
    return aside


def _step_of(path: Path) -> str:
    """Return the step in the name of a checkpoint's directory, even if the checkpoint is about to be replaced, or an
    empty string if the directory is not a checkpoint.
    """
    name = path.name.removeprefix(_REPLACED)
    return name if _NAME.fullmatch(name) else ""


def _fill(aside: Path, manifest: Manifest, arrays: Contents, state: bytes) -> None:
    if isinstance(arrays, Sharded):
        manifest.variables = arrays.variables
        _save_shards(aside, arrays)
    else:
        tensors = save(aside / VARIABLES, list(arrays), list(arrays.values()))
        manifest.variables = [
            StoredVariable(key=name, shape=list(tensor.shape), dtype=tensor.dtype.name)
            for name, tensor in zip(arrays, tensors, strict=False)
        ]
    manifest.format = FORMAT
    private_files.write_file(aside / "checkpoint", f'model_checkpoint_path: "{VARIABLES}"\n'.encode())
    private_files.write_file(aside / STATE, state)
    manifest.files = {}
    for path in sorted(aside.iterdir()):
        path.chmod(0o600)
        manifest.files[path.name] = _digest(path)
        _sync(path)
    private_files.write_file(aside / MANIFEST, encode_json(manifest))
    _sync(aside / MANIFEST)
    _sync(aside)


def _save_shards(aside: Path, sharded: Sharded) -> None:
    """Have each owner write its part, write the chief's part, and merge the parts into one checkpoint by renaming
    files.
    """
    import tensorflow as tf

    # TensorFlow 2.21: see ``save``.
    from tensorflow.python.eager.context import eager_mode

    prefixes = [aside / f"part-{number}" for number in range(sharded.owners.count)]
    sharded.owners.write(prefixes)
    if sharded.arrays:
        prefixes.append(aside / "part-chief")
        save(prefixes[-1], list(sharded.arrays), list(sharded.arrays.values()))
    with eager_mode(), tf.device("/CPU:0"):
        tf.raw_ops.MergeV2Checkpoints(
            checkpoint_prefixes=[str(prefix) for prefix in prefixes],
            destination_prefix=str(aside / VARIABLES),
            delete_old_dirs=False,
        )


def save(prefix: Path, keys: Sequence[str], arrays: Sequence[Any], slices: Sequence[str] = ()) -> list[Any]:
    """Write a TensorFlow checkpoint eagerly, even while a TensorFlow 1 graph is being built.

    Args:
        prefix: The path of the files without their suffixes.
        keys: The keys of the arrays.
        arrays: The arrays, which must not change during the call.
        slices: For each array, the slice of a variable that it contains, as returned by ``shards.slice_of``, or an
            empty string for a whole variable. Empty if every array is a whole variable.

    Returns:
        A tensor for each array.
    """
    import tensorflow as tf

    # TensorFlow 2.21: this must run eagerly even while a graph is being built; tf.init_scope only exits functions.
    from tensorflow.python.eager.context import eager_mode

    with eager_mode(), tf.device("/CPU:0"):
        tensors = [tensor_of(array) for array in arrays]
        if not keys:  # TensorFlow cannot write an empty checkpoint
            keys, tensors = ["nothing"], [tf.constant(0)]
        tf.raw_ops.SaveV2(
            prefix=str(prefix), tensor_names=keys, shape_and_slices=slices or [""] * len(keys), tensors=tensors
        )
    return tensors


def _put(aside: Path, directory: Path, name: str) -> Path:
    path, old = directory / name, directory / f"{_REPLACED}{name}"
    if path.exists():
        shutil.rmtree(old, ignore_errors=True)
        path.rename(old)
    aside.rename(path)
    _sync(directory)
    shutil.rmtree(old, ignore_errors=True)
    return path


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # the file system may not support locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _digest(path: Path) -> FileDigest:
    sha256, size = hashlib.sha256(), 0
    piece = memoryview(bytearray(_CHUNK))
    with private_files.open_regular(path) as file:
        while count := file.readinto(piece):
            sha256.update(piece[:count])
            size += count
    return FileDigest(bytes=size, sha256=sha256.hexdigest())


def _check(path: Path, digest: FileDigest) -> None:
    try:
        found = _digest(path)
    except OSError as error:
        raise InvalidInput(f"A checkpoint must have all of its files, got {path}: {error.strerror or error}") from error
    if found != digest:
        raise InvalidInput(
            f"The files of a checkpoint must be as they were written, {digest.bytes} bytes with the SHA-256 digest "
            f"{digest.sha256:.12}..., got {path} of {found.bytes} bytes with {found.sha256:.12}..."
        )


def pickled(value: Any) -> bytes:
    """Pickle a value for ``state.pickle``, with functions and classes of ``__main__`` by value."""
    return bytes(cloudpickle.dumps(value, protocol=5))


def taken(value: Any) -> Any:
    """Return a NumPy array with a copy of the value of an array, tensor or variable."""
    return np.array(held_by(value))
