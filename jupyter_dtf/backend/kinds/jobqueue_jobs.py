"""dask-jobqueue's job class for each batch system, and the system's command that reports the state of a job."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from . import jobqueue_import  # noqa: F401

# isort: split

from dask_jobqueue.htcondor import HTCondorJob
from dask_jobqueue.lsf import LSFJob
from dask_jobqueue.oar import OARJob
from dask_jobqueue.pbs import PBSJob
from dask_jobqueue.sge import SGEJob
from dask_jobqueue.slurm import SLURMJob

WAITS, RUNS, GONE = "waits", "runs", "gone"


class StdinLsfJob(LSFJob):
    """An LSF job that passes its script on standard input, so that a rejection is reported."""

    async def _submit_job(self, script_filename: str) -> Any:
        with open(script_filename) as file:  # noqa: ASYNC230 - a small file that was just written
            return await self._call([self.submit_command], stdin=file)


def jobs() -> dict[str, type[Any]]:
    """Return dask-jobqueue's job classes, keyed by batch system."""
    return {
        "slurm": SLURMJob,
        "pbs": PBSJob,
        "sge": SGEJob,
        "lsf": StdinLsfJob,
        "htcondor": HTCondorJob,
        "oar": OARJob,
    }


@dataclass(frozen=True)
class Question:
    """A command that reports a job's state, to which the job's id is appended, and patterns to interpret the output."""

    command: tuple[str, ...]
    runs: str
    gone: str
    empty_is_gone: bool = False

    def read(self, status: int, said: str) -> str:
        """Return WAITS, RUNS or GONE. Unknown output, for example when the system is down, counts as waiting."""
        if re.search(self.gone, said) or (self.empty_is_gone and status == 0 and not said):
            return GONE
        return RUNS if status == 0 and re.search(self.runs, said) else WAITS


QUESTIONS = {
    "slurm": Question(
        ("squeue", "-h", "-o", "%T", "-j"),
        runs=r"^(RUNNING|CONFIGURING)$",
        gone=r"Invalid job id"
        r"|^(BOOT_FAIL|CANCELLED|COMPLETED|DEADLINE|FAILED|NODE_FAIL|OUT_OF_MEMORY|PREEMPTED|TIMEOUT)$",
        empty_is_gone=True,
    ),
    "pbs": Question(("qstat",), runs=r"\s[RE]\s+\S+\s*$", gone=r"Unknown Job|has finished|\s[CFX]\s+\S+\s*$"),
    "sge": Question(("qstat", "-j"), runs=r"(?m)^usage\s", gone=r"do not exist"),
    "lsf": Question(("bjobs", "-noheader", "-o", "stat"), runs=r"^RUN$", gone=r"is not found|^(DONE|EXIT)$"),
    "htcondor": Question(("condor_q", "-af", "JobStatus", "-job"), runs=r"^2$", gone=r"^[34]$", empty_is_gone=True),
    "oar": Question(("oarstat", "-s", "-j"), runs=r": Running\b", gone=r": (Terminated|Error)\b|not found"),
}
