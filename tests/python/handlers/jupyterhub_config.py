"""The configuration of a hub for the tests: HTTPS, a path prefix and two users. Settings that differ between runs are
in HUB.
"""

import json
import os
from typing import Any

from jupyterhub.spawner import SimpleLocalProcessSpawner

given = json.loads(os.environ["HUB"])
c: Any = get_config()  # type: ignore[name-defined]  # noqa: F821


class OwnUser(SimpleLocalProcessSpawner):
    """A spawner that starts each user's server with a separate home directory and, if the hub may do this, as a
    different user of the system.
    """

    def make_preexec_fn(self, name: str) -> Any:
        home, uid = given["homes"][name], given["uids"].get(name)

        def prepare() -> None:
            os.chdir(home)
            os.umask(0o077)
            if uid is not None:
                os.setgroups([])
                os.setgid(uid)
                os.setuid(uid)

        return prepare

    def user_env(self, env: dict[str, str]) -> dict[str, str]:
        home = given["homes"][self.user.name]
        return {**env, "USER": self.user.name, "HOME": home, "TMPDIR": f"{home}/tmp"}


c.JupyterHub.bind_url = f"https://127.0.0.1:{given['port']}/prefix/"
c.JupyterHub.ssl_key = given["key"]
c.JupyterHub.ssl_cert = given["certificate"]
c.JupyterHub.hub_port = given["hub_port"]
c.JupyterHub.db_url = "sqlite://"
c.JupyterHub.cookie_secret = os.urandom(32)
c.JupyterHub.spawner_class = OwnUser
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = given["password"]
c.Authenticator.allowed_users = set(given["homes"])
c.JupyterHub.services = [{"name": "test", "api_token": given["token"]}]
c.JupyterHub.load_roles = [
    {"name": "test", "services": ["test"], "scopes": ["admin:users", "admin:servers", "tokens", "access:servers"]},
    {"name": "user", "scopes": ["self"]},
]
c.ConfigurableHTTPProxy.command = [given["proxy"]]
c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{given['api_port']}"
c.ConfigurableHTTPProxy.pid_file = given["pid_file"]
c.Spawner.environment = {"JUPYTERHUB_SINGLEUSER_APP": "jupyter_server.serverapp.ServerApp", **given["environment"]}
c.Spawner.args = ["--ServerApp.jpserver_extensions=jupyter_dtf=True", *([] if given["uids"] else ["--allow-root"])]
c.Spawner.start_timeout = c.Spawner.http_timeout = 60
