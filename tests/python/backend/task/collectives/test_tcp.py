"""Tests specific to collectives over TCP: authentication, errors about lost tasks, and interrupted links."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from jupyter_dtf.backend.task.collectives.tcp import links as links_module
from jupyter_dtf.backend.task.collectives.tcp.links import Links
from jupyter_dtf.backend.task.collectives.tcp.run_certificate import Tls
from jupyter_dtf.backend.task.collectives.tcp.wires import Broken, Incoming, Outgoing, Word
from jupyter_dtf.errors import InvalidInput, Unavailable

from .... import lacking, patience
from ....ports import free_ports
from ..gang import FakeContext, run_gang

SECRET, ANOTHER = b"\x01" * 32, b"\x02" * 32
TASKS = ["worker:0", "worker:1"]
REFUSED = "(?i)certificate|alert|reset by peer|was closed|broken pipe|EOF"
"""A pattern of the errors that a rejected peer gets, depending on how far its handshake has come."""


def free_addresses(count: int) -> list[str]:
    return [f"127.0.0.1:{port}" for port in free_ports(count)]


@pytest.fixture(params=["1", "0"], ids=["encrypted", "plain"])
def pair(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Links, Links, list[str]]]:
    """Yield the links of two tasks of one run, and the list of hosts from which they have rejected connections."""
    monkeypatch.setenv("DTF_ENCRYPT", request.param)
    addresses = free_addresses(2)
    refused: list[str] = []
    made = [Links(rank, TASKS, addresses, SECRET, refused.append) for rank in range(2)]
    yield made[0], made[1], refused
    for each in made:
        each.close()


def arrived(links: Links, group: str, rank: int) -> Incoming:
    found: list[Incoming] = []

    def has_come() -> bool:
        incoming = links.arrived(group, rank)
        if incoming is not None:
            found.append(incoming)
        return bool(found)

    patience.until(has_come, "a connection")
    return found[0]


def joined(pair: tuple[Links, Links, list[str]], group: str = "g") -> tuple[Outgoing, Incoming]:
    first, second, _ = pair
    outgoing = second.dial(group, 0)
    return outgoing, arrived(first, group, 1)


def test_what_is_sent_arrives_and_a_word_comes_back(pair: tuple[Links, Links, list[str]]) -> None:
    outgoing, incoming = joined(pair)
    sent = os.urandom(3_000_000)
    thread = threading.Thread(target=outgoing.send, args=(sent,))
    thread.start()
    assert bytes(incoming.read(10)) == sent[:10]
    received = bytearray(len(sent) - 10)
    incoming.read_into(memoryview(received))
    assert received == sent[10:]
    thread.join()
    assert (outgoing.sent, incoming.received) == (len(sent), len(sent))
    assert outgoing.word() is Word.HERE
    incoming.say(Word.FAILED)
    assert outgoing.await_word(patience.left_s()) is Word.FAILED
    incoming.close()
    outgoing.close()


def test_who_goes_without_a_word_has_died(pair: tuple[Links, Links, list[str]]) -> None:
    outgoing, incoming = joined(pair)
    incoming.close()
    assert outgoing.await_word(patience.left_s()) is Word.DIED
    outgoing.close()


def test_only_the_address_of_the_cluster_is_listened_at(pair: tuple[Links, Links, list[str]]) -> None:
    assert pair[0].listens_at[0] == "127.0.0.1"


def test_a_task_of_another_run_is_turned_away(pair: tuple[Links, Links, list[str]]) -> None:
    """Tasks of different runs reject each other, whichever of them connects to the other."""
    first, _, refused = pair
    stranger = Links(1, TASKS, [address_of(first), free_addresses(1)[0]], ANOTHER)
    with pytest.raises(OSError, match=REFUSED):
        stranger.dial("g", 0)
    patience.until(lambda: refused == ["127.0.0.1"], "word of a stranger")
    caller = Links(0, TASKS, [free_addresses(1)[0], address_of(stranger)], SECRET)
    with pytest.raises(OSError, match=REFUSED):
        caller.dial("g", 1)
    stranger.close()
    caller.close()
    assert first.arrived("g", 1) is None
    outgoing, incoming = joined(pair)
    outgoing.close()
    incoming.close()
    assert refused == ["127.0.0.1"]  # reported once


@pytest.mark.parametrize("pair", ["1"], indirect=True)
def test_a_frame_that_no_task_has_sent_breaks_the_connection(pair: tuple[Links, Links, list[str]]) -> None:
    outgoing, incoming = joined(pair)
    outgoing.send(b"genuine")
    outgoing._raw.sendall((7).to_bytes(4, "little") + os.urandom(7 + 16))
    assert bytes(incoming.read(7)) == b"genuine"
    with pytest.raises(Broken):
        incoming.read(7)
    incoming.close()
    outgoing.close()


def test_a_default_timeout_does_not_apply_to_connections(pair: tuple[Links, Links, list[str]]) -> None:
    socket.setdefaulttimeout(60.0)
    try:
        outgoing, incoming = joined(pair)
    finally:
        socket.setdefaulttimeout(None)
    assert {outgoing._raw.gettimeout(), incoming._raw.gettimeout()} == {None}
    incoming.close()
    outgoing.close()


def address_of(links: Links) -> str:
    host, port = links.listens_at[:2]
    return f"{host}:{port}"


STRANGERS: dict[str, Callable[[socket.socket], None]] = {
    "rubbish": lambda connected: connected.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 100),
    "zeros": lambda connected: connected.sendall(b"\0" * 100_000),
    "nothing, and away": lambda connected: connected.shutdown(socket.SHUT_WR),
}


@pytest.mark.parametrize("what", STRANGERS)
def test_rubbish_is_turned_away(pair: tuple[Links, Links, list[str]], what: str) -> None:
    first, _, refused = pair
    with socket.create_connection(first.listens_at[:2]) as stranger:
        with contextlib.suppress(OSError):  # the connection has been closed already
            STRANGERS[what](stranger)
        patience.until(lambda: refused == ["127.0.0.1"], "word of a stranger")
    outgoing, incoming = joined(pair)
    outgoing.close()
    incoming.close()


def greet(context: ssl.SSLContext, plain: socket.socket) -> None:
    """Connect with TLS and send the beginning of a greeting. Raises OSError if there is no answer."""
    with context.wrap_socket(plain) as connected:
        connected.sendall(b"dtf1")
        if not connected.recv(1):
            raise ConnectionAbortedError("The connection was closed")


def test_without_the_certificate_tls_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A TLS client that trusts any server is rejected if it has no certificate, or one from another secret."""
    refused: list[str] = []
    addresses = free_addresses(2)
    links = Links(0, TASKS, addresses, SECRET, refused.append)
    nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    nobody.check_hostname, nobody.verify_mode = False, ssl.CERT_NONE
    somebody = Tls(ANOTHER)._client
    somebody.verify_mode = ssl.CERT_NONE
    for context in (nobody, somebody):
        with socket.create_connection(links.listens_at[:2]) as plain, pytest.raises(OSError, match=REFUSED):
            greet(context, plain)
    patience.until(lambda: refused, "word of a stranger")
    links.close()


def test_who_says_nothing_keeps_nobody_out(pair: tuple[Links, Links, list[str]]) -> None:
    first, _, refused = pair
    silent = [socket.create_connection(first.listens_at[:2]) for _ in range(links_module.KNOCKING)]
    try:
        for number in range(3):
            outgoing, incoming = joined(pair, f"g{number}")
            outgoing.close()
            incoming.close()
        # The oldest silent connection was closed to make room.
        patience.until(lambda: refused == ["127.0.0.1"], "word of a stranger")
    finally:
        for each in silent:
            each.close()


def test_an_address_that_is_taken_is_said() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(Unavailable, match=f"{address} is not free"):
            Links(0, TASKS, [address, address], SECRET)


@pytest.mark.parametrize(
    ("name", "value"), [("DTF_ENCRYPT", "no"), ("DTF_LINK_SECONDS", "0"), ("DTF_LINK_SECONDS", "x")]
)
def test_settings_are_checked(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(InvalidInput, match=f"`{name}` must be .*, got '{value}'"):
        Links(0, TASKS, free_addresses(2), SECRET)


def sum_for_ever(reducer: Any) -> None:
    while True:
        reducer.sum(np.ones(1_000_000))


@pytest.mark.parametrize("machines", ["ab", "aab", "abc"])
@pytest.mark.parametrize("how", ["closed", "failed", "died"])
def test_waiting_for_a_task_that_is_gone_is_an_error(how: str, machines: str) -> None:
    """All waiting tasks raise an error that names the task that is gone."""

    def program(ctx: FakeContext) -> Any:
        from jupyter_dtf.backend.task.collectives import make_reducer

        ctx.machines = list(machines)
        reducer = make_reducer("auto", ctx)
        reducer.sum(np.ones(3))
        if ctx.rank == ctx.size - 1:
            reducer.sum(np.ones(1_000_000))  # returns once all other tasks are in ``sum_for_ever``
            if how == "died":
                os._exit(1)
            reducer.close(failed=how == "failed")
            return ""
        with pytest.raises(RuntimeError) as caught:
            sum_for_ever(reducer)
        return str(caught.value)

    *said, _ = run_gang(len(machines), program, may_die=True)
    words = {"closed": "has ended", "failed": "has failed", "died": "has died"}
    for each in said:
        assert f"The task worker:{len(machines) - 1} {words[how]}" in each, said


@pytest.mark.parametrize("machines", ["ab", "aab"])
def test_tasks_begin_anew_after_a_failure(machines: str) -> None:
    """Functions traced earlier work again after all tasks have called ``renew``."""

    def program(ctx: FakeContext) -> None:
        import tensorflow as tf

        from jupyter_dtf.backend.task.collectives import make_reducer

        ctx.machines = list(machines)
        reducer = make_reducer("auto", ctx)
        traced = tf.function(lambda t: reducer.sum_tensor(t, "a"), autograph=False)
        for _ in range(3):
            assert traced(tf.ones(3)).numpy().tolist() == [float(ctx.size)] * 3
            assert not reducer.interrupted
            if ctx.rank == 0:
                with pytest.raises(tf.errors.OpError, match="has failed"):
                    traced(tf.ones(3))
                assert reducer.interrupted
            reducer.renew()
        reducer.close()

    run_gang(len(machines), program)


def test_a_task_that_has_joined_takes_part_with_zeros() -> None:
    def program(ctx: FakeContext) -> tuple[list[float], int]:
        from jupyter_dtf.backend.task.collectives import make_reducer

        reducer = make_reducer("tcp", ctx)
        lengths = [3, 300_000] * (2 - ctx.rank)
        sums = [float(reducer.sum(np.ones(length))[0]) for length in lengths]
        return sums, reducer.join()

    assert run_gang(2, program) == [([2.0, 2.0, 1.0, 1.0], 0), ([2.0, 2.0], 0)]


def test_no_server_of_tensorflow_is_started() -> None:
    def program(ctx: FakeContext) -> bool:
        from jupyter_dtf.backend.task.collectives import make_reducer
        from jupyter_dtf.backend.task.tf_servers import serves_collectives

        ctx.machines = ["a", "b"]
        assert make_reducer("auto", ctx).sum(np.ones(3)).tolist() == [2.0] * 3
        return serves_collectives()

    assert run_gang(2, program) == [False, False]


def test_bytes_and_seconds_are_told_by_pair() -> None:
    def program(ctx: FakeContext) -> tuple[list[dict[str, float]], list[tuple[str, str, str]]]:
        from jupyter_dtf.backend.task.collectives import make_reducer
        from jupyter_dtf.backend.task.collectives.tcp import traffic

        traffic.EVERY_S = traffic.WORTH_TELLING_S = 0.0
        ctx.machines = ["a", "b"]
        reducer = make_reducer("auto", ctx)
        reducer.sum(np.ones(1_000_000, "float32"))
        reducer.close()
        return ctx.figures, ctx.notes

    for rank, (figures, notes) in enumerate(run_gang(2, program)):
        peer = f"worker:{1 - rank}"
        assert {name for each in figures for name in each} == {
            *("network_bytes_per_second", "network_seconds"),
            *(f"bytes_per_step_to_{peer}", f"seconds_per_step_to_{peer}"),
        }
        assert max(each.get(f"bytes_per_step_to_{peer}", 0) for each in figures) >= 4_000_000
        assert max(each.get(f"seconds_per_step_to_{peer}", 0) for each in figures) > 0
        assert max(each["network_bytes_per_second"] for each in figures) > 0
        ((level, title, text),) = notes
        assert (level, title) == ("info", "Exchanges with other machines")
        assert f"worker:{rank} sent 3.8 MiB to worker:{1 - rank} at 127.0.0.1, received 3.8 MiB from it" in text


# -- links that are cut -----------------------------------------------------------------------------------------

ADDRESSES = ("198.18.92.1", "198.18.92.2")


@pytest.fixture
def namespaces() -> Iterator[tuple[str, str]]:
    """Yield the names of two network namespaces that are connected by a link, and represent two machines."""
    ip = shutil.which("ip")
    if os.getuid() != 0 or ip is None:
        lacking.skip("only root can make network namespaces, with the program ip")
    names = f"dtf-tcp-{os.getpid()}-a", f"dtf-tcp-{os.getpid()}-b"

    def call(*arguments: str) -> None:
        subprocess.run([ip, *arguments], check=True, capture_output=True)

    made = []
    try:
        for name in names:
            call("netns", "add", name)
            made.append(name)
        call("-n", names[0], "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", names[1])
        for name, address in zip(names, ADDRESSES, strict=True):
            call("-n", name, "addr", "add", f"{address}/30", "dev", "cable")
            call("-n", name, "link", "set", "cable", "up")
        yield names
    finally:
        for name in made:
            call("netns", "del", name)


def in_namespace(ctx: FakeContext, names: tuple[str, str]) -> None:
    """Move this thread, and those that it starts, to the network namespace of the task's machine."""
    with open(f"/run/netns/{names[ctx.rank]}") as namespace:
        if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), 0x40000000):
            raise OSError(ctypes.get_errno(), "setns")
    ctx.machines = ["a", "b"]
    ctx.links = [f"{address}:7003" for address in ADDRESSES]


def set_link(name: str, how: str) -> None:
    subprocess.run(["ip", "-n", name, "link", "set", "cable", how], check=True, capture_output=True)


def test_a_link_that_is_cut_for_a_while_costs_nothing(namespaces: tuple[str, str]) -> None:
    def program(ctx: FakeContext) -> list[float]:
        from jupyter_dtf.backend.task.collectives import make_reducer

        in_namespace(ctx, namespaces)
        reducer = make_reducer("auto", ctx)
        totals = []
        for step in range(4):
            if step == 2 and ctx.rank == 0:
                set_link(namespaces[0], "down")
                threading.Timer(2.0, set_link, [namespaces[0], "up"]).start()  # until then, the link is down
            totals.append(float(reducer.sum(np.full(2_000_000, step, "float32"))[-1]))
        reducer.close()
        return totals

    assert run_gang(2, program) == [[0.0, 2.0, 4.0, 6.0]] * 2


def test_a_link_that_stays_cut_ends_the_run_with_the_pair_named(namespaces: tuple[str, str]) -> None:
    def program(ctx: FakeContext) -> str:
        from jupyter_dtf.backend.task.collectives import make_reducer

        os.environ["DTF_LINK_SECONDS"] = "2"
        in_namespace(ctx, namespaces)
        reducer = make_reducer("auto", ctx)
        reducer.sum(np.ones(3))
        if ctx.rank == 0:
            set_link(namespaces[0], "down")
        with pytest.raises(RuntimeError) as caught:
            sum_for_ever(reducer)
        return str(caught.value)

    assert run_gang(2, program) == [
        f"worker:0 has not heard from worker:1 at {ADDRESSES[1]} for 2 s",
        f"worker:1 has not heard from worker:0 at {ADDRESSES[0]} for 2 s",
    ]
