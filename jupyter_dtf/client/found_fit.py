"""Recreates the training of a run that another process started, from the files saved when it was submitted."""

from __future__ import annotations

from pathlib import Path

from ..backend.records import submission_files
from ..backend.task import own_modules
from ..backend.task.fit.job import FitJob
from ..backend.viewer.resuming import check_goes_on
from ..errors import Conflict, InvalidInput, NotFound
from ..schema import payload
from ..schema.run import RunInfo
from .fit import PreparedFit


def job_of(info: RunInfo) -> PreparedFit:
    """Return the ``PreparedFit`` of a run as it was submitted. Raises Conflict if it was not saved or is unreadable."""
    check_goes_on(info)
    run_dir = Path(info.run_dir)
    try:
        submission_files.read(run_dir)  # also checks the owner of the files
        function, args, _ = payload.load(submission_files.program_file(run_dir))
        if function is own_modules.run:
            _, args, _ = args[1].open()
        (job,) = args
    except (NotFound, InvalidInput) as error:
        raise Conflict(f"The model of the run {info.id} was not saved: {error}") from None
    except Exception as error:  # such as a class from a module that is not installed here
        raise Conflict(
            f"The model of the run {info.id} cannot be read in this process; check that all modules that it uses are "
            f"installed: {type(error).__name__}: {error}"
        ) from error
    assert isinstance(job, FitJob)
    return PreparedFit.found(job)
