"""The kinds ``slurm``, ``pbs``, ``sge``, ``lsf``, ``htcondor`` and ``oar``: each Dask worker is a batch job.

This module describes the kinds and checks their options; ``jobqueue_cluster`` starts the clusters.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import InvalidInput
from ...schema.api import FieldInfo
from ...schema.hosts import HostDesign
from . import idle_release
from .base import Kind

GIB = 1 << 30
_WORD = re.compile(r"[\w.@:+/=,\-]*\Z")
_WALLTIME = re.compile(r"[0-9]+(-[0-9]+)?(:[0-9]{1,2}){0,2}\Z")


class JobQueueKind(Kind):
    """The base class of the batch system kinds."""

    submit: str
    """The command that submits a job."""
    account_title = "Account"
    account_argument = "account"
    """The name of dask-jobqueue's argument for the account."""

    def missing(self) -> str:
        if importlib.util.find_spec("dask_jobqueue") is None:
            return "dask-jobqueue is not installed: pip install jupyter-dtf[jobqueue]"
        if shutil.which(self.submit) is None:
            return f"there is no {self.submit} on this machine: a cluster must be started where jobs can be submitted"
        return ""

    def fields(self) -> list[FieldInfo]:
        return [
            FieldInfo(
                name="queue",
                title="Queue",
                type="string",
                default="",
                help="Empty: the default in dask-jobqueue's configuration, else the system's.",
            ),
            FieldInfo(
                name="account",
                title=self.account_title,
                type="string",
                default="",
                help="The account that the time is charged to. Empty: the system's default.",
            ),
            FieldInfo(
                name="walltime",
                title="Walltime",
                type="string",
                default="01:00:00",
                help="The time limit of a job and everything that runs in it.",
            ),
            FieldInfo(
                name="tasks_per_job",
                title="Tasks per job",
                type="integer",
                default=1,
                minimum=1,
                maximum=1024,
                help="As many jobs are submitted as the tasks need. The tasks of a job share its cores and memory.",
            ),
            FieldInfo(name="cores", title="Cores per job", type="integer", default=4, minimum=1, maximum=4096),
            FieldInfo(name="memory_bytes", title="Memory per job", type="bytes", default=8 * GIB, minimum=64 << 20),
            FieldInfo(name="gpus", title="GPUs per job", type="integer", default=0, minimum=0, maximum=64),
            FieldInfo(
                name="directives",
                title="More directives",
                type="string",
                default="",
                help="As in a job script, without the leading marker, separated by semicolons.",
            ),
            FieldInfo(
                name="prologue",
                title="Commands before the worker",
                type="string",
                default="",
                help="Such as `module load cuda; source ~/venv/bin/activate`.",
            ),
            FieldInfo(
                name="python",
                title="Python on the nodes",
                type="string",
                default="",
                help="The Python program that runs the jobs. Empty: the same as here.",
            ),
            FieldInfo(
                name="interface",
                title="Network interface",
                type="string",
                default="",
                help="Such as ib0, here and on the nodes. Empty: the one with the default route.",
            ),
            FieldInfo(
                name="shared_directory",
                title="Shared directory",
                type="string",
                default="",
                help="A directory with the same path here and on the nodes. It holds the certificates and the jobs' "
                "output while the cluster exists. Empty: the directory of runs.",
            ),
            *idle_release.fields(),
        ]

    def hosts(self, options: Mapping[str, Any], jobs: Mapping[str, int]) -> int:
        return -(-sum(jobs.values()) // int(options["tasks_per_job"]))

    def expected_hosts(self, options: Mapping[str, Any]) -> list[HostDesign]:
        """Return no hosts: the batch system chooses the nodes. Raises InvalidInput for invalid options."""
        for field in ("queue", "account", "interface"):
            if not _WORD.match(options[field]):
                raise InvalidInput(
                    f"`{field}` must be one word of letters, digits and .@:+/=,-, got {options[field]!r:.100}",
                    field=f"options.{field}",
                )
        if options["walltime"] and not _WALLTIME.match(options["walltime"]):
            raise InvalidInput(
                f"`walltime` must be written as hours:minutes:seconds, got {options['walltime']!r:.100}",
                field="options.walltime",
            )
        for field in ("directives", "prologue", "python", "shared_directory"):
            if not options[field].isprintable():
                raise InvalidInput(
                    f"`{field}` must be one line of printable text, got {options[field]!r:.100}",
                    field=f"options.{field}",
                )
        self.job_options(options)
        return []

    def script(self, options: Mapping[str, Any]) -> str:
        from . import jobqueue_cluster

        return jobqueue_cluster.script(self.kind, options, self._job_options(options))

    async def create(self, options: Mapping[str, Any], security: Any, directory: Path) -> Any:
        from . import jobqueue_cluster

        return await jobqueue_cluster.start(self.kind, options, self._job_options(options), security, directory.name)

    def _job_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return {"job_script_prologue": parts(options["prologue"]), **self.job_options(options)}

    # -- differences between systems -------------------------------------------------------------------------------

    def job_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments for dask-jobqueue's job class that depend on the system. Raises InvalidInput."""
        return {
            "queue": options["queue"] or None,
            self.account_argument: options["account"] or None,
            "walltime": options["walltime"] or None,
            "job_extra_directives": [*self.gpu_directives(options["gpus"]), *directives_of(options)],
        }

    def gpu_directives(self, gpus: int) -> list[str]:
        """Return the directives that request this number of GPUs for a job; by default none."""
        return []


def directives_of(options: Mapping[str, Any]) -> list[str]:
    """Return the directives that the user added."""
    return parts(options["directives"])


def parts(text: str) -> list[str]:
    """Split a string at semicolons, and drop empty parts."""
    return [part.strip() for part in text.split(";") if part.strip()]


class SlurmKind(JobQueueKind):
    """The kind ``slurm``."""

    kind = "slurm"
    title = "Slurm"
    submit = "sbatch"

    def gpu_directives(self, gpus: int) -> list[str]:
        return [f"--gres=gpu:{gpus}"] if gpus else []


class PbsKind(JobQueueKind):
    """The kind ``pbs``, for PBS Pro and OpenPBS."""

    kind = "pbs"
    title = "PBS"
    submit = "qsub"

    def job_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        made = super().job_options(options)
        if options["gpus"]:  # requested in the one line that specifies the node's resources
            memory = -(-options["memory_bytes"] // (1 << 20))
            chunk = f"select=1:ncpus={options['cores']}:mem={memory}MB:ngpus={options['gpus']}"
            made["resource_spec"] = chunk
        return made


class SgeKind(JobQueueKind):
    """The kind ``sge``, for the Grid Engine by Sun, Univa and Altair, and the Open Cluster Scheduler."""

    kind = "sge"
    title = "Grid Engine"
    submit = "qsub"
    account_title = "Project"
    account_argument = "project"

    def fields(self) -> list[FieldInfo]:
        environment = FieldInfo(
            name="parallel_environment",
            title="Parallel environment",
            type="string",
            default="smp",
            help="The environment that requests several cores on one node; `qconf -spl` lists all environments.",
        )
        return [*super().fields(), environment]

    def job_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        if not _WORD.match(options["parallel_environment"]) or not options["parallel_environment"]:
            raise InvalidInput(
                f"`parallel_environment` must be one word, got {options['parallel_environment']!r:.100}",
                field="options.parallel_environment",
            )
        made = super().job_options(options)
        if options["cores"] > 1:
            made["job_extra_directives"].insert(0, f"-pe {options['parallel_environment']} {options['cores']}")
        return made

    def gpu_directives(self, gpus: int) -> list[str]:
        return [f"-l gpu={gpus}"] if gpus else []


class LsfKind(JobQueueKind):
    """The kind ``lsf``."""

    kind = "lsf"
    title = "LSF"
    submit = "bsub"
    account_title = "Project"
    account_argument = "project"

    def job_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        made = super().job_options(options)
        if made["walltime"] and made["walltime"].count(":") == 2:
            made["walltime"] = made["walltime"].rpartition(":")[0]  # LSF's walltime has no seconds
        return made

    def gpu_directives(self, gpus: int) -> list[str]:
        return [f'-gpu "num={gpus}"'] if gpus else []


class HtcondorKind(JobQueueKind):
    """The kind ``htcondor``."""

    kind = "htcondor"
    title = "HTCondor"
    submit = "condor_submit"
    account_title = "Accounting group"

    def fields(self) -> list[FieldInfo]:
        disk = FieldInfo(name="disk_bytes", title="Disk per job", type="bytes", default=GIB, minimum=1 << 20)
        return [*(field for field in super().fields() if field.name not in ("queue", "walltime")), disk]

    def expected_hosts(self, options: Mapping[str, Any]) -> list[HostDesign]:
        return super().expected_hosts({"queue": "", "walltime": "", **options})

    def job_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        lines = {}
        for line in directives_of(options):
            name, equals, value = line.partition("=")
            if not equals or not name.strip():
                raise InvalidInput(
                    f"A directive must be written as name = value, got {line!r}", field="options.directives"
                )
            lines[name.strip()] = value.strip()
        if options["account"]:
            lines = {"accounting_group": options["account"], **lines}
        if options["gpus"]:
            lines = {"request_gpus": str(options["gpus"]), **lines}
        return {"disk": options["disk_bytes"], "job_extra_directives": lines}


class OarKind(JobQueueKind):
    """The kind ``oar``."""

    kind = "oar"
    title = "OAR"
    submit = "oarsub"
    account_title = "Project"
    account_argument = "project"

    def job_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        made = super().job_options(options)
        made["memory_per_core_property_name"] = "not_applicable"  # the property's name differs between sites
        if options["gpus"]:
            made["resource_spec"] = f"/nodes=1/gpu={options['gpus']}"
        return made
