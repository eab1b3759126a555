"""Keeps a run's submission in the run's directory: the program with its model and data, and the request.

``<run_dir>/submitted/`` has ``program``, a payload (``schema/payload.py``), and ``submission.json`` with the rest,
which is written last and marks both files as complete. The process that submits the run writes them, and the process
that resumes it reads them. Only their owner may read or write them, because unpickling a program runs code.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import mmap
import os
from pathlib import Path

from ...errors import InvalidInput, NotFound
from ...schema import private_files
from ...schema.base import PeerStruct, decode_json, encode_json, without_defaults
from ...schema.payload import Packed
from ...schema.run import RunInfo, RunRequest
from .run_directory import remove_part

DIRECTORY = "submitted"
MOST_BYTES = 256 << 20
"""The maximum size of a program, with model and data, that is kept whole. A larger one is kept without its data."""
ROOM = 4
"""This many times the program's size must be free on the disk, because checkpoints are more important."""
FORMAT = 1
_PROGRAM, _SUBMISSION = "program", "submission.json"
_WRITTEN_BYTES = 4 << 20

_log = logging.getLogger(__name__)


class Submission(PeerStruct):
    """The JSON document stored next to a program."""

    format: int
    request: RunRequest
    bytes: int
    """The size of the program."""
    left_out_bytes: int = 0
    """The size of the whole program if it was kept without its data; 0 if all of it was kept."""


def keep(run_dir: Path, request: RunRequest, program: Packed, without_data: Packed | None = None) -> None:
    """Keep a run's submission: ``program``, or ``without_data`` if only that is at most ``MOST_BYTES`` long.

    Nothing is kept if both are longer. If the disk has too little free space or ``run_dir`` cannot be written, nothing
    is kept either, and a warning is logged.
    """
    kept, left_out_bytes = program, 0
    if program.size > MOST_BYTES:
        if without_data is None or without_data.size > MOST_BYTES:
            return
        kept, left_out_bytes = without_data, program.size
    directory = run_dir / DIRECTORY
    try:
        private_files.make_dir(directory)
        _check_room(directory, kept.size)
        with private_files.open_file(directory / _PROGRAM) as file:
            for chunk in kept.chunks(_WRITTEN_BYTES):
                file.write(chunk)
        _describe(directory, Submission(format=FORMAT, request=request, bytes=kept.size, left_out_bytes=left_out_bytes))
    except OSError as error:
        _log.warning("The submission of the run in %s is not kept: %s", run_dir, error)
        remove(run_dir)


def keep_again(found: Submission, of: Path, run_dir: Path, request: RunRequest) -> None:
    """Keep the submission of the run in directory ``of`` for another run that continues it, in directory ``run_dir``.

    The program is hard-linked if possible, otherwise copied. ``found`` is the submission that ``read`` returned for
    ``of``; ``request`` is the request of the other run.
    """
    directory = run_dir / DIRECTORY
    try:
        private_files.make_dir(directory)
        os.link(of / DIRECTORY / _PROGRAM, directory / _PROGRAM)
        _describe(
            directory,
            Submission(format=FORMAT, request=request, bytes=found.bytes, left_out_bytes=found.left_out_bytes),
        )
    except OSError as error:
        remove(run_dir)
        if isinstance(error, FileExistsError):
            return
        with contextlib.suppress(NotFound, InvalidInput):  # on a file system without links
            keep(run_dir, request, read(of)[1])


def read(run_dir: Path) -> tuple[Submission, Packed]:
    """Read a run's submission; the program is memory-mapped, not read.

    Raises NotFound if it was not kept, InvalidInput if it belongs to another user or this version cannot read it.
    """
    directory = run_dir / DIRECTORY
    try:
        submission = decode_json(private_files.read_file(directory / _SUBMISSION), Submission)
        with private_files.open_regular(directory / _PROGRAM) as file:
            found = os.fstat(file.fileno())
            if found.st_uid != os.getuid():
                raise InvalidInput(
                    "A program must belong to this user, because unpickling it runs code, got "
                    f"{directory / _PROGRAM} of uid {found.st_uid}"
                )
            if submission.format != FORMAT or found.st_size != submission.bytes:
                raise InvalidInput(
                    f"A kept submission must have format {FORMAT} and a program of {submission.bytes} bytes, but "
                    f"{directory} has format {submission.format} and a program of {found.st_size} bytes"
                )
            program = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise NotFound(f"The directory of the run, {run_dir}, does not contain the run's submission") from None
    except OSError as error:
        raise InvalidInput(f"The submission in {directory} cannot be read: {error}") from None
    return submission, Packed([memoryview(program)])


def program_file(run_dir: Path) -> Path:
    """Return the path of the program."""
    return run_dir / DIRECTORY / _PROGRAM


def forget_if_useless(info: RunInfo) -> None:
    """Remove the submission of a run that ended without a checkpoint, because such a run cannot be resumed."""
    if info.checkpoint is None and info.run_dir:
        remove(Path(info.run_dir))


def remove(run_dir: Path) -> None:
    """Delete a run's submission, and the run's directory if it is then empty."""
    remove_part(run_dir, DIRECTORY)


def _check_room(directory: Path, size: int) -> None:
    """Raise OSError if ``size`` more bytes would leave too little space for checkpoints and events."""
    room = os.statvfs(directory)
    if room.f_bavail * room.f_frsize < ROOM * size:
        raise OSError(errno.ENOSPC, f"it takes {size} bytes, and {ROOM} times as much must be free", str(directory))


def _describe(directory: Path, submission: Submission) -> None:
    private_files.write_file(directory / _SUBMISSION, encode_json(without_defaults(submission)))
