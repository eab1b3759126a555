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
        help="Such as https://hub.example.org/services/dask-gateway. Empty: that of Dask's configuration. "
        "What the gateway lets you choose appears below.",
    ),
    FieldInfo(
        name="proxy_address",
        title="Address of its proxy",
        type="string",
        default="",
        help="Where schedulers are reached: host:port. Empty: that of Dask's configuration, else the gateway's own.",
    ),
    FieldInfo(
        name="authentication",
        title="Authentication",
        type="choice",
        default=CONFIGURED,
        choices=[CONFIGURED, BASIC, JUPYTERHUB, KERBEROS],
        help="configured: as Dask's configuration says. jupyterhub: by the token of this Jupyter server.",
    ),
    FieldInfo(
        name="user",
        title="User",
        type="string",
        default="",
        help="Of basic authentication. Empty: your name on this machine.",
    ),
    FieldInfo(
        name="password_file",
        title="File with the password",
        type="string",
        default="",
        help="Of basic authentication; readable by you alone.",
    ),
    FieldInfo(
        name="tasks_per_worker",
        title="Tasks per worker",
        type="integer",
        default=1,
        minimum=1,
        maximum=1024,
        help="The gateway is asked for as many workers as the tasks need.",
    ),
]
