"""The kinds for batch systems: ``slurm`` with stand-ins for its commands, the others by the scripts they submit."""

from __future__ import annotations

import asyncio
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jupyter_dtf as dtf
from jupyter_dtf.backend.kinds import jobqueue_cluster, jobqueue_jobs, registry
from jupyter_dtf.backend.machine import paths
from jupyter_dtf.backend.viewer import starting
from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.cluster_request import ClusterRequest
from jupyter_dtf.testing.kinds import KindContract
from tests.python import patience, slurm
from tests.python.backend.kinds.rest import rests_and_wakes
from tests.python.backend.test_preemption import AT, STEPS, Waits, assert_weights, fit, until_told
from tests.python.backend.test_restart import notes
from tests.python.clusters import wait_for
from tests.python.slurm import running

SYSTEMS = ("slurm", "pbs", "sge", "lsf", "htcondor", "oar")
SUBMIT = ("sbatch", "squeue", "scancel", "qsub", "bsub", "condor_submit", "oarsub")
SMALL: dict[str, Any] = {"cores": 1, "memory_bytes": 1 << 30, "interface": "lo"}


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Put Slurm's stand-in on the path. Yields the directory with its jobs, none of which may be left at the end."""
    there = tmp_path / "queue"
    for name, value in slurm.install(tmp_path, SUBMIT).items():
        monkeypatch.setenv(name, value)
    yield there
    patience.until(lambda: not running(there), lambda: f"the end of the jobs {running(there)}")


@pytest.mark.usefixtures("queue", "leave_session")
class TestSlurm(KindContract):
    kind = "slurm"
    options = SMALL


@pytest.mark.usefixtures("leave_session")
class TestBadDays:
    def test_a_queue_that_does_not_exist_is_said_in_slurms_words(self, queue: Path) -> None:
        with dtf.Cluster(backend="slurm", jobs={"worker": 1}, queue="nope", **SMALL) as cluster:
            info = wait_for(cluster, lambda info: any(host.problem for host in info.coming))
            (host,) = info.coming
            assert host.step == "ended"
            assert host.problem.startswith("sbatch refused the job: sbatch: error: invalid partition specified: nope")
        assert not list(queue.glob("*.sh"))
        assert len((queue / "refused").read_text().split()) == 1, "it is not tried again and again"

    def test_a_job_that_is_killed_by_its_walltime(self, queue: Path) -> None:
        with dtf.Cluster(backend="slurm", jobs={"worker": 1}, **SMALL) as cluster:
            wait_for(cluster, lambda info: info.hosts)
            subprocess.run(["scancel", "1", "DUE TO TIME LIMIT"], check=True)
            info = wait_for(cluster, lambda info: any(host.problem for host in info.coming))
            (host,) = info.coming
            assert host.problem.startswith("Job 1 has ended: ")
            assert "CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT" in host.problem
            assert any(warning.endswith(f"slurm-0 cannot be used: {host.problem}") for warning in info.warnings)
            assert not running(queue)
            assert not info.hosts

            cluster.scale({"worker": 2})
            info = wait_for(cluster, lambda info: len(info.hosts) == 2 and not info.coming)
            assert sorted(host.name for host in info.hosts) == ["slurm-1", "slurm-2"]

    def test_a_node_without_the_python_says_so(self, queue: Path) -> None:
        with dtf.Cluster(backend="slurm", jobs={"worker": 1}, python="/no/python", **SMALL) as cluster:
            info = wait_for(cluster, lambda info: any(host.problem for host in info.coming))
            assert "/no/python: No such file or directory" in info.coming[0].problem

    def test_nothing_secret_is_in_the_script_and_nothing_stays(self, queue: Path) -> None:
        with dtf.Cluster(backend="slurm", jobs={"worker": 1}, **SMALL) as cluster:
            wait_for(cluster, lambda info: info.hosts)
            (shared,) = paths.jobs_dir().iterdir()
            assert stat.S_IMODE(shared.stat().st_mode) == 0o700
            assert stat.S_IMODE((shared / "settings.json").stat().st_mode) == 0o600
            assert "PRIVATE KEY" in (shared / "settings.json").read_text()
            assert "PRIVATE KEY" not in (queue / "1.sh").read_text()
        assert not list(paths.jobs_dir().iterdir())


@pytest.mark.usefixtures("leave_session")
@pytest.mark.extended
def test_a_training_leaves_a_job_that_is_to_end(queue: Path, tmp_path: Path) -> None:
    here, on = tmp_path / "here", tmp_path / "on"
    with dtf.Cluster(backend="slurm", jobs={"worker": 2}, **SMALL) as cluster:
        wait_for(cluster, lambda info: len(info.hosts) == 2)
        run = fit(cluster, callbacks=[Waits(here, on, is_asked=True)])
        patience.until(here.exists, lambda: run)
        other, host = (info.host for info in sorted(run.info.tasks, key=lambda info: info.task))
        (job,) = [script.stem for script in queue.glob("*.sh") if f"--name {host} " in script.read_text()]
        subprocess.run(["scancel", job], check=True)
        until_told(run, lambda title: title == f"Host {host} is going away (SIGTERM)")
        on.touch()
        run.result(patience.left_s())
        assert_weights(run)
        assert AT <= run.checkpoints[0].step < STEPS / 2
        assert any(note.title.startswith("worker:1 has to leave its machine (SIGTERM), after") for note in notes(run))
        assert {info.host for info in run.info.tasks} == {other}
        patience.until(lambda: len(running(queue)) == 1, lambda: f"the end of one of the jobs {running(queue)}")


@pytest.mark.usefixtures("leave_session")
@pytest.mark.extended
def test_hosts_are_given_back_while_nothing_runs_and_come_again_for_a_run(queue: Path) -> None:
    def given_back() -> None:
        patience.until(lambda: len(running(queue)) == 1, lambda: f"the end of one of the jobs {running(queue)}")

    rests_and_wakes("slurm", SMALL, given_back)
    assert len(list(queue.glob("*.sh"))) == 3, "two jobs, and one more"


EXPECTED = {
    "slurm": ["#SBATCH -p long", "#SBATCH -A me", "#SBATCH --cpus-per-task=3", "#SBATCH --mem=2G",
              "#SBATCH -t 02:00:00", "#SBATCH --gres=gpu:2", "#SBATCH x=1", "#SBATCH y=a,b"],
    "pbs": ["#PBS -q long", "#PBS -A me", "#PBS -l select=1:ncpus=3:mem=2048MB:ngpus=2", "#PBS -l walltime=02:00:00",
            "#PBS x=1", "#PBS y=a,b"],
    "sge": ["#$ -q long", "#$ -P me", "#$ -l h_rt=02:00:00", "#$ -pe smp 3", "#$ -l gpu=2", "#$ x=1", "#$ y=a,b"],
    "lsf": ["#BSUB -q long", '#BSUB -P "me"', "#BSUB -n 3", '#BSUB -R "span[hosts=1]"', "#BSUB -W 02:00",
            '#BSUB -gpu "num=2"', "#BSUB x=1", "#BSUB y=a,b"],
    "htcondor": ["accounting_group = me", "request_gpus = 2", "MY.DaskWorkerCores = 3",
                 f"MY.DaskWorkerMemory = {2 << 30}", "x = 1", "y = a,b"],
    "oar": ["#OAR -q long", "#OAR --project me", "#OAR -l /nodes=1/gpu=2,walltime=02:00:00", "#OAR x=1", "#OAR y=a,b"],
}  # fmt: skip


@pytest.mark.usefixtures("queue")
class TestTheScript:
    @pytest.mark.parametrize("system", SYSTEMS)
    def test_a_preview_shows_what_will_be_sent(self, system: str) -> None:
        kind = registry.find_kind(system)
        wanted = {
            "queue": "long", "account": "me", "walltime": "02:00:00", "cores": 3, "memory_bytes": 2 << 30, "gpus": 2,
            "directives": "x=1; y=a,b", "prologue": "module load cuda", "python": "/opt/python", "interface": "ib0",
        }  # fmt: skip
        options = {name: value for name, value in wanted.items() if name in {field.name for field in kind.fields()}}
        shown = starting.preview(ClusterRequest(kind=system, options=options))
        assert not shown.problems
        lines = shown.script.splitlines()
        assert [line for line in EXPECTED[system] if line not in lines] == [], shown.script
        command = "/opt/python -m jupyter_dtf.backend.kinds.job_worker tls://ADDRESS:PORT --name"
        assert f"{command} {system}-0 --nthreads 3 --memory-limit 2.00GiB" in shown.script
        assert f"--settings {paths.jobs_dir()}/CLUSTER/settings.json --interface ib0" in shown.script
        assert "module load cuda" in shown.script
        assert not paths.jobs_dir().exists()

    @pytest.mark.parametrize("system", SYSTEMS)
    def test_its_kind_describes_itself(self, system: str) -> None:
        contract = KindContract()
        contract.kind = system
        kind = registry.find_kind(system)
        contract.test_its_options_are_valid_and_make_at_least_one_host(kind)
        contract.test_its_fields_describe_themselves(kind)
        contract.test_describing_it_imports_neither_dask_nor_tensorflow()
        assert kind.hosts(registry.check_options(kind, {"tasks_per_job": 2}), {"worker": 4, "ps": 1}) == 3

    @pytest.mark.parametrize(
        ("system", "options", "message"),
        [
            ("slurm", {"queue": "a\n#SBATCH -b"}, "`queue` must be one word"),
            ("slurm", {"account": "a b"}, "`account` must be one word"),
            ("slurm", {"walltime": "soon"}, "`walltime` must be written as hours:minutes:seconds, got 'soon'"),
            ("slurm", {"directives": "a\nrm -r ~"}, "`directives` must be one line"),
            ("htcondor", {"directives": "a"}, "A directive must be written as name = value, got 'a'"),
            ("sge", {"parallel_environment": ""}, "`parallel_environment` must be one word"),
        ],
    )
    def test_what_no_script_can_have_is_said_at_the_field(
        self, system: str, options: dict[str, str], message: str
    ) -> None:
        (problem,) = starting.preview(ClusterRequest(kind=system, options=options)).problems
        assert problem.field == f"options.{next(iter(options))}"
        assert problem.message.startswith(message)

    def test_an_interface_that_is_not_here(self) -> None:
        with pytest.raises((InvalidInput, dtf.errors.DtfError), match="The network interface must exist on this"):
            dtf.Cluster(backend="slurm", interface="nope0").wait_ready()


@pytest.mark.parametrize(
    ("system", "status", "said", "meant"),
    [
        ("slurm", 0, "PENDING", "waits"),
        ("slurm", 0, "RUNNING", "runs"),
        ("slurm", 0, "TIMEOUT", "gone"),
        ("slurm", 0, "", "gone"),
        ("slurm", 1, "slurm_load_jobs error: Invalid job id specified", "gone"),
        ("slurm", 1, "slurm_load_jobs error: Unable to contact slurm controller (connect failure)", "waits"),
        ("pbs", 0, "Job id  Name  User  Time Use S Queue\n1.pbs  dtf  me  00:00:00 R workq", "runs"),
        ("pbs", 0, "Job id  Name  User  Time Use S Queue\n1.pbs  dtf  me  0 Q workq", "waits"),
        ("pbs", 153, "qstat: Unknown Job Id 1.pbs", "gone"),
        ("pbs", 35, "qstat: 1.pbs Job has finished, use -x or -H to obtain historical job information", "gone"),
        ("sge", 1, "Following jobs do not exist:\n1", "gone"),
        ("lsf", 0, "PEND", "waits"),
        ("lsf", 0, "EXIT", "gone"),
        ("lsf", 255, "Job <1> is not found", "gone"),
        ("htcondor", 0, "1", "waits"),
        ("htcondor", 0, "2", "runs"),
        ("htcondor", 0, "", "gone"),
        ("oar", 0, "1: Running", "runs"),
        ("oar", 0, "1: Error", "gone"),
    ],
)
def test_what_a_system_says_of_a_job(system: str, status: int, said: str, meant: str) -> None:
    assert jobqueue_jobs.QUESTIONS[system].read(status, said) == meant


def test_its_library_leaves_signals_alone_and_can_be_imported_in_any_thread() -> None:
    program = """
import signal, threading
before = signal.getsignal(signal.SIGINT)
failed = []
def work():
    try:
        from jupyter_dtf.backend.kinds import jobqueue_cluster
    except BaseException as error:
        failed.append(error)
thread = threading.Thread(target=work)
thread.start()
thread.join()
assert not failed, failed
assert signal.getsignal(signal.SIGINT) is before
"""
    subprocess.run([sys.executable, "-c", program], check=True)


async def test_a_job_is_asked_after_until_its_end_whatever_goes_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[Exception | tuple[int, str]] = [
        OSError("Cannot allocate memory"),
        RuntimeError("unforeseen"),
        (0, "RUNNING"),
        (1, "slurm_load_jobs error: Invalid job id specified"),
    ]

    async def ask(command: list[str], stdin: Any = None) -> tuple[int, str]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(jobqueue_cluster, "_ask", ask)
    monkeypatch.setattr(jobqueue_cluster, "LOOK_S", 0.0)
    (tmp_path / "slurm-7.err").symlink_to(tmp_path / "removed")  # listed, but it cannot be read
    (tmp_path / "slurm-7.out").write_text("Killed")
    steps: list[str] = []
    has_ended = asyncio.Event()

    def watch(job: jobqueue_cluster.WatchedJob) -> None:
        steps.append(job.step)
        if job.problem:
            has_ended.set()

    job = jobqueue_cluster.job_class("slurm")(
        "tls://127.0.0.1:1",
        "slurm-0",
        system="slurm",
        watch=watch,
        protocol="tls://",
        cores=1,
        memory="1 GiB",
        log_directory=str(tmp_path),
    )
    job.job_id = "7"
    job.look()
    try:
        await asyncio.wait_for(has_ended.wait(), patience.left_s())
        assert steps == ["queueing", "starting Python", "ended"]
        assert job.problem == "Job 7 has ended: Killed"
    finally:
        job.joined()
