"""The kind ``address``, on a scheduler and workers that Dask's own commands have started and that outlive clusters."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from distributed import Scheduler

import jupyter_dtf as dtf
from jupyter_dtf.backend.kinds import address, address_cluster
from jupyter_dtf.backend.machine import paths
from jupyter_dtf.backend.viewer import connections
from jupyter_dtf.errors import InvalidInput, Unavailable
from jupyter_dtf.schema.api import ClusterInfo
from jupyter_dtf.testing.kinds import KindContract
from tests.python import patience
from tests.python.clusters import wait_until

from .foreign_dask import ForeignDask


@pytest.fixture(scope="module")
def foreign(no_process_left_by_module: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForeignDask]:
    """A scheduler with two workers, and certificates."""
    there = ForeignDask(tmp_path_factory.mktemp("foreign"), tls=True)
    try:
        for name in ("a", "b"):
            there.start_worker(name)
        yield there
    finally:
        there.close()


def left_on_this_machine(tokens: Iterable[str]) -> list[Path]:
    """Return the directories of these clusters that still exist."""
    places = [parent / token for parent in paths.family_parents() for token in tokens]
    return [path for path in places if path.exists()]


def token_of(cluster: dtf.Cluster) -> str:
    return connections.read(cluster.name).token


def hosts(info: ClusterInfo) -> list[str]:
    return [host.name for host in info.hosts]


def where(_args: Any, ctx: Any) -> int:
    return int(ctx.task_index)


def wait_for_the_stop(path: str, ctx: Any) -> None:
    Path(path).touch()
    while not ctx.should_stop:
        time.sleep(0.01)


@pytest.mark.usefixtures("leave_session")
class TestAddress(KindContract):
    kind = "address"
    workers = 2

    @pytest.fixture(autouse=True)
    def there(self, foreign: ForeignDask, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(type(self), "options", foreign.options)


@pytest.mark.usefixtures("leave_session")
def test_clusters_share_a_scheduler_with_others_and_leave_nothing(foreign: ForeignDask, tmp_path: Path) -> None:
    """This holds with a late worker, one without the package, a frozen one, and a cluster process that is killed."""
    before = foreign.state()
    os.mkfifo(tmp_path / "pipe")
    work = foreign.client.submit(Path.read_text, tmp_path / "pipe", workers=["a"])  # blocks until something is written
    with dtf.Cluster(backend="address", jobs={"worker": 2}, **foreign.options) as first:
        second = dtf.Cluster(backend="address", jobs={"worker": 2}, keep=True, **foreign.options)
        tokens = [token_of(first), token_of(second)]
        for cluster in (first, second):
            assert hosts(wait_until(cluster, lambda info: len(info.hosts) == 2)) == ["a", "b"]
            assert not cluster.info.warnings

        foreign.start_worker("bare", has_package=False)
        foreign.start_worker("late")
        info = wait_until(first, lambda info: len(info.hosts) == 3 and any(host.problem for host in info.coming))
        assert hosts(info) == ["a", "b", "late"]
        (bare,) = info.coming
        assert bare.name == "bare"
        assert bare.problem.startswith("jupyter_dtf is not installed there (")
        assert f"pip install jupyter-dtf[cpu]=={dtf.__version__}" in bare.problem
        assert any(bare.problem in warning for warning in info.warnings)

        going = second.run(wait_for_the_stop, str(tmp_path / "begun"), wait=False)
        patience.until((tmp_path / "begun").exists, "the run of the second cluster")
        os.kill(connections.read(second.name).pid, signal.SIGKILL)
        assert first.run(where).result() == [0, 1]
        with pytest.raises(dtf.ClusterLost):
            going.result()
        second.close()

        foreign.signal("late", signal.SIGSTOP)
    assert set(foreign.workers) == {"a", "b", "bare", "late"}
    foreign.signal("late", signal.SIGCONT)
    after: dict[str, Any] = {}

    def is_as_before() -> bool:
        after.update(foreign.state())
        return all(after[name] == before[name] for name in before) and not left_on_this_machine(tokens)

    patience.until(is_as_before, lambda: (differences(before, after), left_on_this_machine(tokens)))
    assert not [name for name in after["late"]["handlers"] + after["bare"]["plugins"] if "dtf" in name]
    (tmp_path / "pipe").write_text("undisturbed")
    assert work.result() == "undisturbed"
    for name in ("late", "bare"):
        foreign.stop(name)


def differences(before: Mapping[str, Mapping[str, Any]], after: Mapping[str, Mapping[str, Any]]) -> list[Any]:
    return [
        (name, key, before[name][key], after.get(name, {}).get(key))
        for name in before
        for key in before[name]
        if before[name][key] != after.get(name, {}).get(key)
    ]


@pytest.mark.usefixtures("leave_session")
def test_the_runs_of_a_scheduler_that_is_killed_are_lost(tmp_path: Path) -> None:
    foreign = ForeignDask(tmp_path, tls=False)
    try:
        foreign.start_worker("a")
        cluster = dtf.Cluster(backend="address", jobs={"worker": 1}, address=foreign.address)
        (warning,) = wait_until(cluster, lambda info: info.hosts and info.warnings).warnings
        assert warning.startswith(f"The scheduler at {foreign.address} has no certificates: anyone who can reach it")
        run = cluster.run(wait_for_the_stop, str(tmp_path / "begun"), wait=False)
        patience.until((tmp_path / "begun").exists, "the run")
        with pytest.raises(Unavailable, match="Dask's dashboard belongs to the scheduler, which somebody else runs"):
            cluster.dashboard_url  # noqa: B018
        foreign.signal("scheduler", signal.SIGKILL)
        with pytest.raises(dtf.ClusterLost, match="The scheduler at tcp://.* is gone or can no longer be reached"):
            run.result()
        assert wait_until(cluster, lambda info: info.state.value == "lost").message.startswith(
            "The scheduler at tcp://"
        )
        token = token_of(cluster)
        cluster.close()
        patience.until(lambda: not left_on_this_machine([token]), lambda: left_on_this_machine([token]))
    finally:
        foreign.close()


# -- error messages ------------------------------------------------------------------------------------------------


def connect(where: str, files: list[str]) -> None:
    async def look() -> None:
        await (await address_cluster.connect_to(where, files, scope="0")).scheduler_comm.close_rpc()

    asyncio.run(asyncio.wait_for(look(), patience.left_s()))


@pytest.mark.usefixtures("leave_session")
def test_nobody_is_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        there = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        cluster = dtf.Cluster(backend="address", jobs={"worker": 1}, address=there)
        with pytest.raises(Unavailable) as caught:
            cluster.wait_ready()
        token = token_of(cluster)
        cluster.close()
    assert f"No scheduler can be reached at {there}: Connection refused" in str(caught.value)
    assert not left_on_this_machine([token])


def test_a_name_that_nobody_knows() -> None:
    with pytest.raises(InvalidInput, match="No scheduler can be reached at tcp://no.such.invalid:1: .* not ") as caught:
        connect("tcp://no.such.invalid:1", [])
    assert caught.value.field == "options.address"


def test_something_else_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address_cluster, "CONNECT_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        there = f"tcp://127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(Unavailable, match=f"The server at {there} does not respond like a Dask scheduler"):
            connect(there, [])


def test_a_certificate_of_another_authority(foreign: ForeignDask, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    made = ForeignDask.certificates(tmp_path / "other")
    with pytest.raises((InvalidInput, Unavailable), match="certificate"):
        connect(foreign.address, list(made.values()))
    with pytest.raises(InvalidInput, match="The certificates cannot be used: ") as caught:
        connect(foreign.address, [foreign.files["ca_file"], foreign.files["cert_file"], made["key_file"]])
    assert caught.value.field == "options.cert_file"


def test_tls_without_certificates_anywhere() -> None:
    with pytest.raises(InvalidInput, match="needs certificates, and Dask's configuration has none") as caught:
        connect("tls://127.0.0.1:1", [])
    assert caught.value.field == "options.ca_file"


def test_a_scheduler_of_other_versions() -> None:
    """The scheduler answers like Dask 2024, which does not accept a list of package names."""
    known = {"packages": {"dask": "2024.1.0", "distributed": "2024.1.0"}, "host": {"python": "3.9.1.final.0"}}

    def versions(packages: list[str] | None = None) -> dict[str, Any]:
        if packages:
            raise ValueError("not enough values to unpack (expected 2, got 1)")
        return known

    async def look() -> None:
        async with Scheduler(host="127.0.0.1", port=0, dashboard_address=":0") as scheduler:
            scheduler.handlers["versions"] = versions
            await address_cluster.connect_to(scheduler.address, [], scope="0")

    with pytest.raises(Unavailable) as caught:
        asyncio.run(asyncio.wait_for(look(), patience.left_s()))
    told = str(caught.value)
    assert " has Python 3.9 instead of 3." in told
    assert "distributed 2024.1.0 instead of 20" in told
    assert f"jupyter_dtf (none) instead of {dtf.__version__}" in told


@pytest.mark.parametrize(
    ("options", "field", "message"),
    [
        ({}, "address", "must be tls://HOST:PORT or tcp://HOST:PORT, got ''"),
        ({"address": "ucx://a:1"}, "address", "got 'ucx://a:1'"),
        ({"address": "tcp://a:123456"}, "address", "got 'tcp://a:123456'"),
        ({"address": "tcp://a"}, "address", "got 'tcp://a'"),
        ({"address": "tls://a:1", "ca_file": __file__}, "cert_file", "file is missing: TLS needs all three files"),
        ({"address": "tcp://a:1", "ca_file": __file__}, "ca_file", "requires an address that begins with tls://"),
        (
            {"address": "tls://a:1", "ca_file": "/no/ca", "cert_file": __file__, "key_file": __file__},
            "ca_file",
            "must be a readable file, got '/no/ca'",
        ),
    ],
)
def test_wrong_options_are_said_at_their_field(options: dict[str, str], field: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        address.check({"address": "", "ca_file": "", "cert_file": "", "key_file": "", **options})
    assert caught.value.field == f"options.{field}"


def test_an_address_may_leave_out_what_follows_from_the_rest() -> None:
    nothing = {"ca_file": "", "cert_file": "", "key_file": ""}
    assert address.check({"address": " node:8786 ", **nothing}) == ("tcp://node:8786", [])
    assert address.check({"address": "tls://[::1]:8786/", **nothing}) == ("tls://[::1]:8786", [])
    given = dict.fromkeys(nothing, __file__)
    assert address.check({"address": "node:8786", **given}) == ("tls://node:8786", [__file__] * 3)
