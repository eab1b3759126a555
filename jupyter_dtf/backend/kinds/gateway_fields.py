"""The fixed options of the kind ``gateway``, which are the same for every gateway."""

from __future__ import annotations

from ...schema.api import FieldInfo

CONFIGURED, BASIC, JUPYTERHUB, KERBEROS = "configured", "basic", "jupyterhub", "kerberos"

FIELDS = [
    FieldInfo(
        name="address",
        title="Address",
        type="string",
        default="",
        help="Such as https://hub.example.org/services/dask-gateway. Empty: from Dask's configuration. "
        "The gateway's own options appear below.",
    ),
    FieldInfo(
        name="proxy_address",
        title="Address of the gateway's proxy",
        type="string",
        default="",
        help="The host:port at which schedulers are reached. Empty: from Dask's configuration, else the gateway's own.",
    ),
    FieldInfo(
        name="authentication",
        title="Authentication",
        type="choice",
        default=CONFIGURED,
        choices=[CONFIGURED, BASIC, JUPYTERHUB, KERBEROS],
        help="configured: from Dask's configuration. jupyterhub: with the token of this Jupyter server.",
    ),
    FieldInfo(
        name="user",
        title="User",
        type="string",
        default="",
        help="For basic authentication. Empty: your name on this machine.",
    ),
    FieldInfo(
        name="password_file",
        title="Password file",
        type="string",
        default="",
        help="For basic authentication; must be readable only by you.",
    ),
    FieldInfo(
        name="tasks_per_worker",
        title="Tasks per worker",
        type="integer",
        default=1,
        minimum=1,
        maximum=1024,
        help="The cluster requests as many workers as the tasks need.",
    ),
]
