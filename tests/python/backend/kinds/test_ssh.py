"""The kind ``ssh``, on three simulated machines."""

from __future__ import annotations

import importlib
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from distributed import Security

import jupyter_dtf as dtf
from jupyter_dtf.backend.kinds import registry, ssh_cluster, ssh_entries
from jupyter_dtf.backend.kinds.ssh_cluster import Setting
from jupyter_dtf.backend.kinds.ssh_entries import HostEntry
from jupyter_dtf.backend.viewer import connections, starting
from jupyter_dtf.client.session import session
from jupyter_dtf.commands import doctor
from jupyter_dtf.errors import InvalidInput, RunFailed, Unavailable
from jupyter_dtf.schema.cluster_request import ClusterRequest
from jupyter_dtf.schema.run import RunState
from jupyter_dtf.testing.kinds import KindContract
from tests.python import patience
from tests.python.clusters import wait_for
from tests.python.machines import Machine, Net, net

STAYS = [
    *("/tmp/jupyter_dtf-0", "/dev/shm/jupyter_dtf-0-shared"),  # the parents of clusters' directories, empty
    *("/run/home/.keras", "/run/home/.keras/keras.json"),  # made by Keras wherever it is imported
]
SAVED = "/run/home/.local/share/jupyter/jupyter_dtf/runs"
"""The directory of the runs, with their checkpoints."""


def is_saved(path: str) -> bool:
    """Return whether this is a run's checkpoint on the chief's machine, or a directory above one."""
    return f"{SAVED}/".startswith(f"{path}/") or re.match(f"{SAVED}/[^/]+(/checkpoints(/|$)|$)", path) is not None


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Net]:
    with net(tmp_path_factory.mktemp("machines"), ["ada", "bert", "cleo"]) as made:
        yield made


def options_of(there: Net, *machines: Machine, **more: Any) -> dict[str, Any]:
    return {
        "hosts": [machine.entry for machine in machines or there.machines],
        "key_file": str(there.key),
        "known_hosts": str(there.known_hosts),
        "threads_per_host": 1,
        **more,
    }


def nothing_is_left(there: Net) -> None:
    patience.until(
        lambda: not any(machine.processes() for machine in there.machines),
        lambda: "the end of " + "\n".join(machine.describe() for machine in there.machines),
    )
    left = [path for machine in there.machines for path in machine.files() if path not in STAYS]
    assert [path for path in left if not is_saved(path)] == []


# -- without a cluster -------------------------------------------------------------------------------------------------


class TestHostsAsTheyAreWritten:
    def test_what_may_stand_there(self) -> None:
        assert ssh_entries.parse(
            ["gpu1 tasks=2", "alice@gpu2:2222 gpus=0+1 threads=4", "[fe80::1]:22", "cpu gpus="]
        ) == [
            HostEntry("gpu1", "gpu1", tasks=2),
            HostEntry("gpu2", "gpu2", "alice", 2222, "0,1", 4),
            HostEntry("fe80::1", "fe80::1", "", 22),
            HostEntry("cpu", "cpu", gpus=""),
        ]

    def test_a_host_that_is_named_twice_has_two_workers(self) -> None:
        assert [entry.name for entry in ssh_entries.parse(["a", "b", "a"])] == ["a-1", "b", "a-2"]

    @pytest.mark.parametrize(
        "text", ["a@", "a:0", "a:70000", "-oProxyCommand=x", "a b", "a gpus", "a;b", "a threads=0"]
    )
    def test_what_may_not(self, text: str) -> None:
        with pytest.raises(InvalidInput, match="must be .*, got ") as refused:
            ssh_entries.parse([text])
        assert refused.value.field == "options.hosts"

    def test_a_form_a_terminal_and_python_name_them(self) -> None:
        kind = registry.find_kind("ssh")
        for hosts in ("a, b gpus=0", ["a", "b gpus=0"], ("a", "b gpus=0"), "a\nb gpus=0\n"):
            assert registry.check_options(kind, {"hosts": hosts})["hosts"] == ["a", "b gpus=0"]
        with pytest.raises(InvalidInput, match="Hosts must be a list of strings, got None in it"):
            registry.check_options(kind, {"hosts": [None]})
        with pytest.raises(InvalidInput, match="`hosts` must name at least one host"):
            kind.hosts(registry.check_options(kind, {}), {"worker": 1})


class TestWhatIsSaidAtTheField:
    """Errors that are reported at their field before anything starts."""

    def refused(self, **options: Any) -> tuple[str, str]:
        (problem,) = starting.preview(ClusterRequest(kind="ssh", options=options)).problems
        with pytest.raises(InvalidInput) as raised:
            dtf.Cluster(backend="ssh", **options)
        assert (str(raised.value), raised.value.field) == (problem.message, problem.field)
        return problem.field, problem.message

    def test_no_host(self) -> None:
        field, message = self.refused(hosts=" , ")
        assert field == "options.hosts"
        assert message.startswith("`hosts` must name at least one host. A host must be written as in alice@gpu1:2222")

    def test_a_host_that_is_not_known(self, tmp_path: Path) -> None:
        (tmp_path / "known_hosts").touch()
        field, message = self.refused(hosts=["me@gpu1:2222"], known_hosts=str(tmp_path / "known_hosts"))
        assert field == "options.hosts"
        assert message.startswith("The host key of gpu1 is not known")
        assert "`ssh -p 2222 me@gpu1`" in message

    def test_several_that_are_not_known(self, tmp_path: Path) -> None:
        (tmp_path / "known_hosts").touch()
        _, message = self.refused(hosts=["gpu1", "gpu2"], known_hosts=str(tmp_path / "known_hosts"))
        assert message.startswith("The host keys of gpu1, gpu2 are not known")

    @pytest.mark.parametrize("option", ["key_file", "known_hosts"])
    def test_a_file_that_is_not_there(self, option: str) -> None:
        field, message = self.refused(hosts=["gpu1"], **{option: "/nowhere/file"})
        assert field == f"options.{option}"
        assert message.endswith("must be a readable file, got '/nowhere/file'")

    def test_a_key_that_is_none(self, tmp_path: Path) -> None:
        (tmp_path / "key").write_text("no key")
        field, message = self.refused(hosts=["gpu1"], key_file=str(tmp_path / "key"), host_keys="accept-new")
        assert field == "options.key_file"
        assert message.startswith("The private key cannot be used: ")


class TestWhereTheSchedulerListens:
    """The scheduler's listening address: the one from which SSH reaches the hosts, if it is the same for all."""

    def listens(self, *local: str, **options: Any) -> tuple[str, list[str]]:
        options = {"address": "", "interface": "", **options}
        keepers = [SimpleNamespace(local_address=address) for address in local]
        setting = Setting(options, Security(), "token")
        listening = ssh_cluster._listen_at(options, keepers, setting)  # type: ignore[arg-type]
        setting.port = 1
        return listening, [setting.scheduler_for(keeper) for keeper in keepers]  # type: ignore[arg-type]

    def test_hosts_in_one_network(self) -> None:
        assert self.listens("10.1.0.1", "10.1.0.1") == ("10.1.0.1", ["tls://10.1.0.1:1"] * 2)

    def test_this_machine_alone(self) -> None:
        assert self.listens("127.0.0.1") == ("127.0.0.1", ["tls://127.0.0.1:1"])

    def test_this_machine_and_another(self) -> None:
        assert self.listens("127.0.0.1", "10.1.0.1") == ("10.1.0.1", ["tls://10.1.0.1:1"] * 2)

    def test_hosts_in_two_networks(self) -> None:
        assert self.listens("10.1.0.1", "10.2.0.1") == ("0.0.0.0", ["tls://10.1.0.1:1", "tls://10.2.0.1:1"])

    def test_an_address_or_an_interface_that_was_named(self) -> None:
        assert self.listens("10.1.0.1", address="192.0.2.1") == ("0.0.0.0", ["tls://192.0.2.1:1"])
        assert self.listens("10.1.0.1", interface="lo") == ("127.0.0.1", ["tls://127.0.0.1:1"])
        with pytest.raises(InvalidInput, match="must exist on this machine, got 'none0'") as refused:
            self.listens("10.1.0.1", interface="none0")
        assert refused.value.field == "options.interface"


# -- on three machines -------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("leave_session")
class TestSsh(KindContract):
    kind = "ssh"

    @pytest.fixture(autouse=True)
    def _on_three_machines(self, there: Net, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setattr(type(self), "options", options_of(there), raising=False)
        yield
        nothing_is_left(there)


@pytest.mark.usefixtures("leave_session")
class TestBadDays:
    """Hosts that cannot be used: their own errors are reported, and nothing is left behind."""

    def failure(self, there: Net, *machines: Machine, **more: Any) -> str:
        cluster = dtf.Cluster({"worker": 1}, backend="ssh", **options_of(there, *machines, **more))
        with pytest.raises(Unavailable) as raised:
            cluster.wait_ready()
        cluster.close()
        nothing_is_left(there)
        return str(raised.value)

    def test_a_key_that_is_not_let_in(self, there: Net, tmp_path: Path) -> None:
        import asyncssh

        key = tmp_path / "another"
        asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(key))
        ada = there.machines[0]
        said = self.failure(there, ada, key_file=str(key))
        assert f"Host {ada.address}: {ada.address} port {ada.port} does not accept the key in {key}: " in said
        assert f"`ssh -p {ada.port} root@{ada.address}` must work without a prompt" in said

    def test_a_host_where_no_sshd_is(self, there: Net, tmp_path: Path) -> None:
        ada = there.machines[0]
        options = {"hosts": [f"{ada.address}:1"], "known_hosts": str(tmp_path / "known"), "host_keys": "accept-new"}
        said = self.failure(there, **options)
        assert f"Host {ada.address}: {ada.address} port 1 cannot be reached: Connection refused" in said

    def test_a_host_that_shows_another_key(self, there: Net, tmp_path: Path) -> None:
        ada, bert, _ = there.machines
        known = tmp_path / "known_hosts"
        mixed = there.known_hosts.read_text().replace(f"[{bert.address}]:{bert.port}", f"[{ada.address}]:{ada.port}")
        known.write_text(mixed.splitlines()[1] + "\n")
        assert "presents a host key that differs from the known one" in self.failure(
            there, ada, known_hosts=str(known), host_keys="accept-new"
        )

    def test_a_new_host_is_taken_and_kept_where_that_is_asked_for(self, there: Net, tmp_path: Path) -> None:
        known = tmp_path / "none_yet" / "known_hosts"
        options = {"known_hosts": str(known), "host_keys": "accept-new", "python": "/nowhere/python"}
        assert "Python could not be started there" in self.failure(there, there.machines[0], **options)
        assert known.read_text() == there.known_hosts.read_text().splitlines(keepends=True)[0]

    def test_a_python_that_is_not_there_or_has_not_what_is_needed(self, there: Net) -> None:
        ada = there.machines[0]
        said = self.failure(there, ada, python="/nowhere/python")
        assert f"Host {ada.address}: Python could not be started there: " in said
        assert "/nowhere/python" in said
        said = self.failure(there, ada, directory="/nowhere")
        assert "Python could not be started there: " in said and "/nowhere" in said

    def test_a_host_that_does_not_reach_the_scheduler(self, there: Net) -> None:
        cluster = dtf.Cluster(1, backend="ssh", **options_of(there, there.machines[0], address="203.0.113.1"))
        (host,) = wait_for(cluster, lambda info: any(host.problem for host in info.coming)).coming
        assert "This host cannot reach the cluster at tls://203.0.113.1:" in host.problem
        cluster.close()
        nothing_is_left(there)

    def test_a_host_without_the_package(self, there: Net) -> None:
        bare = there.add("bare", python_path="")
        try:
            python = "/usr/bin/python3"
            said = self.failure(there, bare, python=python)
            assert f"Host {bare.address}: {python} cannot be used there: " in said or "Python must be" in said, said
        finally:
            there.machines.remove(bare)
            bare.end()


@pytest.fixture(scope="class")
def cluster(request: pytest.FixtureRequest, there: Net, no_process_left_by_module: None) -> Iterator[dtf.Cluster]:
    """A cluster on all three machines, in the module's directories. The second machine's link is cut at the start.

    Links that are cut later are noticed after 11 seconds, the minimum that Dask accepts.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP", "11s")
        there.machines[1].cut()
        options = options_of(there)
        options["hosts"][2] += " tasks=1"
        made = dtf.Cluster({"worker": 3, "ps": 1}, backend="ssh", name="three", **options)
    yield made
    made.close()
    session().close()
    nothing_is_left(there)


@pytest.mark.module_directories
class TestThreeMachines:
    """Tests on one cluster of three machines, which must run in this order."""

    def test_a_host_that_comes_later_is_used_by_the_next_run(self, there: Net, cluster: dtf.Cluster) -> None:
        """Until then, the cluster reports the host's problem, and runs use the other hosts."""
        bert = there.machines[1]
        info = wait_for(cluster, lambda info: any(host.problem for host in info.coming) and len(info.hosts) == 2)
        (host,) = info.coming
        assert host.name == bert.address
        assert host.problem.startswith(f"{bert.address} port {bert.port} ")
        assert f"Host {bert.address} cannot be used, and is retried: {host.problem}" in info.warnings
        assert cluster.run(_machine, jobs={"worker": 3}).result() == ["ada", "ada", "cleo"]
        bert.mend()
        wait_for(cluster, lambda info: len(info.hosts) == 3)
        assert cluster.run(_machine, jobs={"worker": 3}).result() == ["ada", "bert", "cleo"]

    def test_each_task_is_on_its_machine(self, cluster: dtf.Cluster) -> None:
        assert [host.slots for host in cluster.info.hosts] == [0, 0, 1]
        found = cluster.run(_where, jobs={"worker": 3}).result()
        assert [task["machine"] for task in found] == ["ada", "bert", "cleo"]
        assert [task["machines"] for task in found] == [["ada", "bert", "cleo"]] * 3
        assert [task["local"] for task in found] == [(0, 1)] * 3
        assert len({task["address"] for task in found}) == 3

    def test_secrets_are_on_no_command_line_and_in_no_environment(self, there: Net, cluster: dtf.Cluster) -> None:
        cluster.run(_prints, jobs={"worker": 3})  # no earlier test may have used the machines
        found = [process for machine in there.machines for process in machine.processes()]
        assert len(found) > 3 * 4, there.machines[0].describe()
        for process in found:
            assert "PRIVATE KEY" not in f"{process.cmdline()} {process.environ()}"

    def test_what_tasks_print_is_kept_here(self, cluster: dtf.Cluster) -> None:
        run = cluster.run(_prints, jobs={"worker": 3})
        for index in range(3):
            assert run.logs("worker", index).splitlines() == [f"line {i} of worker:{index}" for i in range(100)]

    def test_modules_travel_with_a_run_and_are_forgotten_with_it(
        self, cluster: dtf.Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "travels.py").write_text("import beside.within\ndef answer(args, ctx): return beside.within.X\n")
        (tmp_path / "beside").mkdir()
        (tmp_path / "beside" / "__init__.py").touch()
        (tmp_path / "beside" / "within.py").write_text("X = 42\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        travels: Any = importlib.import_module("travels")

        jobs = {"worker": 3}
        with pytest.raises(RunFailed, match="No module named 'travels'"):
            cluster.run(travels.answer, jobs=jobs)
        assert cluster.run(travels.answer, jobs=jobs, modules=[travels, tmp_path / "beside"]).result() == [42] * 3
        with pytest.raises(RunFailed, match="No module named 'travels'"):
            cluster.run(travels.answer, jobs=jobs)
        assert cluster.upload(tmp_path / "travels.py", tmp_path / "beside") == ["travels", "beside"]
        assert cluster.run(travels.answer, jobs=jobs).result() == [42] * 3

    def test_all_reduce_trains(self, cluster: dtf.Cluster) -> None:
        history = _fit(cluster, "allreduce", {"worker": 3})
        assert history[-1] < history[0]

    def test_parameter_servers_train(self, cluster: dtf.Cluster) -> None:
        history = _fit(cluster, "ps", {"worker": 2, "ps": 1})
        assert history[-1] < history[0]

    def test_a_slow_link_still_trains(self, there: Net, cluster: dtf.Cluster) -> None:
        there.machines[1].slow(50_000_000)
        try:
            _fit(cluster, "allreduce", {"worker": 3})
        finally:
            there.machines[1].slow(0)

    def test_hosts_that_do_not_reach_each_other_are_named_before_a_gang_starts(
        self, there: Net, cluster: dtf.Cluster
    ) -> None:
        """Both hosts reach the cluster. The checkup reports the problem too, and measures the other connections."""
        ada, _, cleo = there.machines
        found = session().call(lambda fleet: fleet.checkup("three"))
        assert [host.name for host in found.hosts] == [machine.address for machine in there.machines]
        assert [host.interface for host in found.hosts] == ["eth0"] * 3, doctor.in_words(found)
        assert found.is_well, doctor.in_words(found)
        ada.run("ip", "route", "add", "unreachable", cleo.address)
        try:
            found = session().call(lambda fleet: fleet.checkup("three", network=True))
            told = {host.name: [each.text for each in host.findings if each.level != "ok"] for host in found.hosts}
            (there_and,), (back,) = told.pop(ada.address), told.pop(cleo.address)
            assert there_and.startswith(
                f"{ada.address} at {ada.address} cannot reach {cleo.address} at {cleo.address}: "
            )
            assert back.endswith(f": no answer within 3 s (from {cleo.address} on eth0)")
            assert list(told.values()) == [[]]
            with pytest.raises(RunFailed, match="The hosts of this run cannot reach each other"):
                _fit(cluster, "allreduce", {"worker": 3})
        finally:
            ada.run("ip", "route", "del", "unreachable", cleo.address)
        assert len(found.network) == 4
        assert session().call(lambda fleet: fleet.checkup("three")).is_well

    def test_a_host_whose_link_is_cut_fails_the_run_and_comes_back(self, there: Net, cluster: dtf.Cluster) -> None:
        bert = there.machines[1]
        run = cluster.run(_waits, jobs={"worker": 3}, wait=False)
        run.wait_for(lambda info: info.state is RunState.RUNNING)
        bert.cut()
        with pytest.raises(RunFailed, match=f"its host {bert.address}"):
            run.result()
        bert.mend()
        # The host's old worker may reconnect for a moment before its replacement joins.
        patience.until(
            lambda: cluster.run(_machine, jobs={"worker": 3}).result() == ["ada", "bert", "cleo"], "a run on all three"
        )

    def test_a_cluster_process_that_is_killed_leaves_nothing_on_the_hosts(
        self, there: Net, cluster: dtf.Cluster
    ) -> None:
        run = cluster.run(_waits, jobs={"worker": 3}, wait=False)
        run.wait_for(lambda info: info.state is RunState.RUNNING)
        os.kill(connections.read(cluster.name).pid, signal.SIGKILL)
        nothing_is_left(there)


def _machine(_args: Any, _ctx: Any) -> str:
    import socket

    return socket.gethostname()


def _where(_args: Any, ctx: Any) -> dict[str, Any]:
    import socket

    return {
        "machine": socket.gethostname(),
        "machines": ctx.machines,
        "local": (ctx.local_rank, ctx.local_size),
        "address": ctx.cluster_spec.endpoint(ctx.job_name, ctx.task_index).rpartition(":")[0],
    }


def _prints(_args: Any, ctx: Any) -> None:
    for i in range(100):
        print(f"line {i} of {ctx.task}")


def _waits(_args: Any, ctx: Any) -> None:
    ctx.stop_requested.wait()


def _fit(cluster: dtf.Cluster, strategy: str, jobs: dict[str, int]) -> list[float]:
    import keras

    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.05), "mse")
    x = np.random.default_rng(0).normal(size=(96, 4)).astype("float32")
    run = cluster.fit(model, x, x.sum(1), strategy=strategy, batch_size=24, epochs=3, jobs=jobs, verbose=0)
    assert run.info.state.value == "succeeded"
    return list(run.history["loss"])
