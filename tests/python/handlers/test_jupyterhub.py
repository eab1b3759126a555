"""Two users of a real JupyterHub, with its proxy, HTTPS and a path prefix, see nothing of each other."""

from __future__ import annotations

import asyncio
import datetime
import gc
import ipaddress
import json
import os
import re
import secrets
import shutil
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

from .. import patience
from ..patience import left_s
from ..ports import free_ports

ROOT = Path(__file__).parents[3]
PEOPLE = {"alice": 61_001, "bob": 61_002}

TRAINING = """
import keras, numpy as np, jupyter_dtf as dtf
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
run = dtf.connect("hers").fit(model, np.ones((8, 4)), np.ones((8, 1)), epochs=2, batch_size=4, name="hers", verbose=0)
print("trained", run.id)
"""


def self_signed(directory: Path) -> tuple[Path, Path]:
    """Create a key and a certificate for 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (directory / "key.pem").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    (directory / "certificate.pem").write_bytes(certificate.public_bytes(pem))
    return directory / "key.pem", directory / "certificate.pem"


class Hub:
    """A running hub."""

    def __init__(self, given: dict[str, Any], process: subprocess.Popen[bytes], log: Path) -> None:
        self.given = given
        self.process = process
        self.log = log
        self.browsers: list[requests.Session] = []
        self.url = f"https://127.0.0.1:{given['port']}/prefix"

    def call(self, method: str, path: str, token: str, **arguments: Any) -> requests.Response:
        return requests.request(
            method, self.url + path, headers={"Authorization": f"token {token}"}, verify=self.given["certificate"],
            timeout=left_s(), allow_redirects=False, **arguments,
        )  # fmt: skip

    def admin(self, method: str, path: str, **arguments: Any) -> Any:
        answer = self.call(method, f"/hub/api{path}", self.given["token"], **arguments)
        assert answer.ok, (answer.status_code, answer.text, self.log.read_text()[-3000:])
        return answer.json() if answer.content else None

    def started(self, name: str) -> str:
        """Start a user's server. Return a token of the user."""
        self.admin("POST", f"/users/{name}/server")
        ready = False
        with requests.Session() as session, session.get(
            f"{self.url}/hub/api/users/{name}/server/progress", stream=True, timeout=left_s(),
            verify=self.given["certificate"],
            headers={"Authorization": f"token {self.given['token']}"},
        ) as progress:  # fmt: skip
            for line in progress.iter_lines():
                told = json.loads(line.removeprefix(b"data:")) if line.startswith(b"data:") else {}
                assert not told.get("failed"), (told, self.log.read_text()[-5000:])
                ready = ready or told.get("ready", False)  # the last message of the stream
        assert ready
        return str(self.admin("POST", f"/users/{name}/tokens")["token"])

    def browser(self, name: str) -> requests.Session:
        """Return the session of a user who has logged in with the hub's form and opened their server."""
        session = requests.Session()
        self.browsers.append(session)
        session.trust_env = False  # the environment may name other certificates to trust
        session.verify = self.given["certificate"]
        page = session.get(f"{self.url}/hub/login", timeout=left_s())
        (xsrf,) = set(re.findall(r'name="_xsrf" value="([^"]+)"', page.text))
        form = {"username": name, "password": self.given["password"], "_xsrf": xsrf}
        answer = session.post(f"{self.url}/hub/login?next=/prefix/user/{name}/lab", data=form, timeout=left_s())
        assert answer.url.startswith(f"{self.url}/user/{name}/lab"), (answer.url, answer.text[:500])
        assert answer.ok
        return session


def others_may_run_python() -> bool:
    """Return whether this is root, and other users can run the interpreter, too."""
    try:
        tried = [sys.executable, "-c", "import distributed, jupyterhub, jupyter_server"]
        return os.geteuid() == 0 and subprocess.run(tried, user=PEOPLE["bob"], cwd="/", check=False).returncode == 0
    except PermissionError:
        return False


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    proxy = shutil.which("configurable-http-proxy", path=f"{ROOT}/node_modules/.bin{os.pathsep}{os.environ['PATH']}")
    assert proxy, "npm ci installs the hub's proxy"
    uids = PEOPLE if others_may_run_python() else {}
    # Other users of the system cannot look into the directory of the tests.
    with tempfile.TemporaryDirectory(prefix="dtf-hub-", dir="/tmp" if uids else None) as root:
        os.chmod(root, 0o755)
        homes = {name: Path(root) / name for name in PEOPLE}
        for name, home in homes.items():
            (home / "tmp").mkdir(parents=True)
            for made in (home, home / "tmp"):
                made.chmod(0o700)
                if uids:
                    os.chown(made, uids[name], uids[name])
        port, hub_port, api_port = free_ports(3)
        key, certificate = self_signed(tmp_path)
        given: dict[str, Any] = {
            "homes": {name: str(home) for name, home in homes.items()},
            "uids": uids,
            "port": port,
            "hub_port": hub_port,
            "api_port": api_port,
            "key": str(key),
            "certificate": str(certificate),
            "token": secrets.token_hex(16),
            "password": secrets.token_hex(8),
            "proxy": proxy,
            "pid_file": str(tmp_path / "proxy.pid"),
            "environment": {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, os.environ.get("PYTHONPATH", ""))))},
        }
        environment = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")}
        environment |= {
            "HUB": json.dumps(given),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }
        log = tmp_path / "hub.log"
        with open(log, "wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "jupyterhub", "-f", str(Path(__file__).with_name("jupyterhub_config.py"))],
                cwd=tmp_path, env=environment, stdout=output, stderr=output,
            )  # fmt: skip
        running = Hub(given, process, log)
        try:
            until(running, lambda: answers(running))
            yield running
        finally:
            for browser in running.browsers:
                browser.close()
            process.terminate()
            process.wait(left_s())
            for left in at_home(root):  # if the test has failed
                left.kill()
            for uid in uids.values():
                shutil.rmtree(f"/dev/shm/jupyter_dtf-{uid}-shared", ignore_errors=True)
            gc.collect()  # unclosed sockets are ignored here, but would fail a later test


def until(hub: Hub, condition: Callable[[], Any]) -> None:
    """Wait until the condition holds. Other processes provide no event to wait for."""

    def come() -> bool:
        assert hub.process.poll() is None, hub.log.read_text()[-3000:]
        return bool(condition())

    patience.until(come, lambda: hub.log.read_text()[-3000:])


def answers(hub: Hub) -> bool:
    try:
        return hub.call("GET", "/hub/api/", hub.given["token"]).ok
    except requests.ConnectionError:  # the proxy is not there yet
        return False


def api(name: str) -> str:
    return f"/user/{name}/jupyter-dtf/api"


async def told(hub: Hub, name: str, headers: dict[str, str], kind: str) -> Any:
    """Return the first message of a kind on a user's WebSocket."""
    url = f"{hub.url.replace('https', 'wss')}{api(name)}/events"
    trusted = ssl.create_default_context(cafile=hub.given["certificate"])
    connected = await websocket_connect(HTTPRequest(url, headers=headers, ssl_options=trusted))
    try:
        while (data := await asyncio.wait_for(connected.read_message(), left_s())) is not None:
            message = json.loads(data)
            if message["type"] == kind:
                return message
    finally:
        connected.close()
    pytest.fail("closed")


def told_to(hub: Hub, name: str, headers: dict[str, str], kind: str = "clusters") -> Any:
    return asyncio.run(told(hub, name, headers, kind))


def as_person(hub: Hub, name: str, code: str) -> subprocess.CompletedProcess[str]:
    """Run a program as this user, outside of Jupyter."""
    uid = hub.given["uids"].get(name)
    identity: dict[str, Any] = {"user": uid, "group": uid, "extra_groups": []} if uid is not None else {}
    home = hub.given["homes"][name]
    environment = {"PATH": os.environ["PATH"], "HOME": home, "TMPDIR": f"{home}/tmp", **hub.given["environment"]}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=home, env=environment, capture_output=True, text=True, timeout=left_s(),
        check=False, **identity,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:unclosed <ssl.SSLSocket:ResourceWarning")  # from urllib3, if the proxy hangs up
@pytest.mark.extended
def test_two_people_see_nothing_of_each_other(hub: Hub) -> None:
    alice, bob = hub.started("alice"), hub.started("bob")
    hers, his = ({"Authorization": f"token {token}"} for token in (alice, bob))

    # Alice starts a cluster in her browser and trains on it. All of it is below /prefix/user/alice/, over HTTPS.
    browser = hub.browser("alice")
    page = browser.get(hub.url + api("alice") + "/clusters", timeout=left_s())
    assert page.json() == []
    wanted: Any = {"name": "hers", "jobs": {"worker": 1}}
    refused = browser.post(hub.url + api("alice") + "/clusters", json=wanted, timeout=left_s())
    assert refused.status_code == 403 and "_xsrf" in refused.json()["message"]
    (xsrf,) = (cookie.value for cookie in browser.cookies if cookie.name == "_xsrf" and cookie.path.endswith("/alice/"))
    headers = {"X-XSRFToken": str(xsrf), "Referer": f"{hub.url}/user/alice/lab"}
    made = browser.post(hub.url + api("alice") + "/clusters", json=wanted, headers=headers, timeout=left_s())
    assert made.status_code == 201, made.text
    state = lambda: hub.call("GET", api("alice") + "/clusters/hers", alice).json()["state"]  # noqa: E731
    until(hub, lambda: state() == "running")
    trained = as_person(hub, "alice", TRAINING)
    assert "trained" in trained.stdout, trained.stderr[-3000:]
    (run,) = hub.call("GET", api("alice") + "/runs", alice).json()
    assert (run["name"], run["state"]) == ("hers", "succeeded")
    cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in browser.cookies)
    origin = hub.url.removesuffix("/prefix")
    for identity in (hers, {"Cookie": cookies, "Origin": origin}):
        assert [cluster["name"] for cluster in told_to(hub, "alice", identity)["clusters"]] == ["hers"]

    # Dask's dashboard is reached through the hub's proxy.
    board = hub.call("POST", api("alice") + "/clusters/hers/dashboard", alice, json={}).json()["url"]
    assert board == "/prefix/user/alice/jupyter-dtf/api/clusters/hers/dask/status"
    shown = browser.get(origin + board, timeout=left_s())
    assert "<title>Dask" in shown.text
    (style,) = re.findall(r'href="(statics/css/base.css[^"]*)"', shown.text)
    assert browser.get(origin + board.removesuffix("status") + style, timeout=left_s()).ok

    # Bob's server shows none of it, and hers refuses him, with his token as well as with his cookies.
    assert hub.call("GET", api("bob") + "/clusters", bob).json() == []
    assert hub.call("GET", api("bob") + "/runs", bob).json() == []
    assert told_to(hub, "bob", his)["clusters"] == []
    assert told_to(hub, "bob", his, "runs")["runs"] == []
    stranger = hub.browser("bob")
    for path, method in (("/clusters", "GET"), ("/runs", "GET"), ("/clusters", "POST"), ("/clusters/hers", "DELETE")):
        for token in (bob, "nobody"):
            answer = hub.call(method, api("alice") + path, token, json={} if method == "POST" else None)
            assert answer.status_code == 403, (method, path, answer.text)
            assert set(answer.json()) == {"message", "error", "field"}
        by_cookie = stranger.request(method, hub.url + api("alice") + path, timeout=left_s(), allow_redirects=False)
        assert by_cookie.status_code == 403
    assert hub.call("GET", board.removeprefix("/prefix"), bob).status_code == 403
    his_cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in stranger.cookies)
    for identity in (his, {"Cookie": his_cookies, "Origin": origin}, {}):
        with pytest.raises(HTTPClientError) as caught:
            told_to(hub, "alice", identity)
        assert caught.value.code == 403
    if hub.given["uids"]:
        home = hub.given["homes"]["alice"]
        spied = as_person(hub, "bob", f"import os; print(os.listdir({home!r}))")
        assert "PermissionError" in spied.stderr
    listed = as_person(hub, "bob", "import jupyter_dtf as dtf; print(dtf.clusters(), dtf.runs())")
    assert listed.stdout == "[] []\n", listed.stderr

    assert hub.call("DELETE", api("alice") + "/clusters/hers", alice).status_code == 204
    until(hub, lambda: hub.call("GET", api("alice") + "/clusters", alice).json() == [])
    for name in PEOPLE:
        hub.admin("DELETE", f"/users/{name}/server")
    until(hub, lambda: not at_home(str(Path(hub.given["homes"]["alice"]).parent)))


def at_home(root: str) -> list[psutil.Process]:
    """Return the processes of the users that have not ended."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("HOME", "").startswith(root) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found
