"""The training of a run that another process has started, by what it was submitted with."""

from __future__ import annotations

from pathlib import Path

from ..backend.records import submitted
from ..backend.task import own_modules
from ..backend.task.fit.job import FitJob
from ..backend.viewer.resuming import check_goes_on
from ..errors import Conflict, InvalidInput, NotFound
from ..schema import payload
from ..schema.run import RunInfo
from .fit import PreparedFit


def job_of(info: RunInfo) -> PreparedFit:
    """The training, as it was submitted. Raises Conflict where that is not kept, or cannot be read here."""
    check_goes_on(info)
    run_dir = Path(info.run_dir)
    try:
        submitted.read(run_dir)  # which looks whose it is
        function, args, _ = payload.load(submitted.program_file(run_dir))
        if function is own_modules.run:
            _, args, _ = args[1].open()
        (job,) = args
    except (NotFound, InvalidInput) as error:
        raise Conflict(f"The model of the run {info.id} is not kept: {error}") from None
    except Exception as error:  # of a class of a module that is not here
        raise Conflict(
            f"The model of a run is read where the modules are that it is made of. Received: {info.id}, "
            f"{type(error).__name__}: {error}"
        ) from error
    assert isinstance(job, FitJob)
    return PreparedFit.found(job)
